#include "experts/exchange/expert_flow.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fathom::experts {
namespace {

void CopyRow(const Bf16* from, std::int64_t cols, Bf16* to) {
  std::memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(Bf16));
}

}  // namespace

void FindHomes(Matrix<const std::int32_t> ids, std::span<const std::int32_t> positions,
               const ExpertHome& home, Matrix<std::int32_t> homes) {
  for (std::int64_t row = 0; row < ids.rows; ++row) {
    for (std::int64_t j = 0; j < ids.cols; ++j) {
      const std::int32_t id = ids.Row(row)[j];
      homes.Row(row)[j] =
          id == kRemoteExpert ? kRemoteExpert : home(positions[static_cast<std::size_t>(row)], id);
    }
  }
}

void ChooseHere(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes, int rank,
                Matrix<std::int32_t> chosen) {
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    chosen.data[i] = homes.data[i] == rank ? ids.data[i] : kRemoteExpert;
  }
}

void ChooseChunk(Matrix<const std::int32_t> ids, const ExpertOrder& order, int chunk,
                 Matrix<std::int32_t> chosen) {
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    const std::int32_t id = ids.data[i];
    chosen.data[i] = id != kRemoteExpert && order.Chunk(id) == chunk ? id : kRemoteExpert;
  }
}

int CountChunks(const ExchangeShape& shape, std::int64_t n_tokens, int n_ranks) {
  return shape.in_one_call ? 1 : ExpertChunks(n_tokens, shape.experts_per_token, n_ranks);
}

Status CheckTokens(std::int64_t n_tokens, std::int64_t max_tokens) {
  if (n_tokens > max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "exchange of experts: expected at most {} tokens (its buffers), found {}",
                     max_tokens, n_tokens);
  }
  return {};
}

Status Outbox::Send(std::span<const Outgoing> messages) {
  Result<std::unique_ptr<Exchange>> started = ranks_.Start(messages, {});
  if (!started) return Unexpected(started.error());
  on_their_way_.push_back(std::move(*started));
  return {};
}

Status Outbox::Poll() {
  for (const std::unique_ptr<Exchange>& exchange : on_their_way_) {
    if (Result<bool> moved = exchange->Poll(); !moved) return Unexpected(moved.error());
  }
  return {};
}

Status Outbox::Finish() {
  Status status;
  for (const std::unique_ptr<Exchange>& exchange : on_their_way_) {
    if (status) {
      status = exchange->Wait();
    }
  }
  on_their_way_.clear();
  return status;
}

Status RowSender::Send(int to, Matrix<const std::int32_t> ids, Matrix<const Bf16> rows) {
  const std::int64_t first = n_rows_;
  for (std::int64_t pair = 0; pair < ids.rows * ids.cols; ++pair) {
    if (ids.data[pair] != kRemoteExpert) {
      CopyRow(rows.Row(pair), rows.cols, memory_.Row(n_rows_++));
    }
  }
  if (n_rows_ == first) return {};
  const Outgoing message = {to, AsBytes(memory_.Rows(first, n_rows_ - first))};
  return outbox_.Send({&message, 1});
}

Status RowReceiver::Begin(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes,
                          const ExpertOrder& order, Matrix<Bf16> rows) {
  ids_ = ids;
  homes_ = homes;
  order_ = &order;
  rows_ = rows;
  const int n_chunks = order.n_chunks();
  messages_.clear();
  for (int from = 0; from < ranks_.size(); ++from) {
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
      messages_.push_back({.from = from, .chunk = chunk});
    }
  }
  for (std::int64_t pair = 0; pair < ids.rows * ids.cols; ++pair) {
    if (const int home = homes.data[pair]; home != kRemoteExpert && home != ranks_.rank()) {
      ++messages_[static_cast<std::size_t>(home * n_chunks + order.Chunk(ids.data[pair]))].count;
    }
  }
  std::erase_if(messages_, [](const Message& message) { return message.count == 0; });
  incoming_.clear();
  std::int64_t first = 0;
  for (Message& message : messages_) {
    message.first = first;
    first += message.count;
    incoming_.push_back({message.from, AsBytes(memory_.Rows(message.first, message.count))});
  }
  Result<std::unique_ptr<Exchange>> started = ranks_.Start({}, incoming_);
  if (!started) return Unexpected(started.error());
  exchange_ = std::move(*started);
  PlaceArrived();
  return {};
}

void RowReceiver::PlaceArrived() {
  n_complete_ = order_->n_chunks();
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    Message& message = messages_[i];
    if (!message.is_placed && !exchange_->HasArrived(i)) {
      n_complete_ = std::min(n_complete_, message.chunk);
    }
    if (message.is_placed || !exchange_->HasArrived(i)) continue;
    std::int64_t next = message.first;
    for (std::int64_t pair = 0; pair < ids_.rows * ids_.cols; ++pair) {
      if (Belongs(message, pair)) {
        CopyRow(memory_.Row(next++), rows_.cols, rows_.Row(pair));
      }
    }
    message.is_placed = true;
  }
}

Status RowReceiver::Poll() {
  if (Result<bool> moved = exchange_->Poll(); !moved) return Unexpected(moved.error());
  PlaceArrived();
  return {};
}

Status RowReceiver::WaitForMore() {
  if (Status waited = exchange_->WaitForAny(); !waited) return waited;
  PlaceArrived();
  return {};
}

Status RowReceiver::Finish() {
  while (n_complete_ < order_->n_chunks()) {
    if (Status waited = WaitForMore(); !waited) return waited;
  }
  exchange_.reset();
  return {};
}

}  // namespace fathom::experts
