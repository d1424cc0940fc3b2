#include "experts/exchange/sliced_experts.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"

namespace fathom::experts {

SlicedExperts::Views SlicedExperts::LayOut(BufferLayout& memory, const ExchangeShape& shape,
                                           int n_ranks) {
  const std::int64_t t = shape.max_tokens;
  const std::int64_t k = shape.experts_per_token;
  const std::int64_t slice = DivideUp(t, n_ranks);
  return {.token_homes = memory.Add<std::int32_t>(t, k),
          .x = memory.Add<Bf16>(t, shape.hidden),
          .ids = memory.Add<std::int32_t>(t, k),
          .weights = memory.Add<float>(t, k),
          .homes = memory.Add<std::int32_t>(t, k),
          .chosen = memory.Add<std::int32_t>(t, k),
          .sums = memory.Add<Bf16>(t, shape.hidden),
          .sent = memory.Add<Bf16>(t * k, shape.hidden),
          .received = memory.Add<Bf16>(slice * k, shape.hidden)};
}

SlicedExperts::SlicedExperts(Backend& backend, Ranks row_ranks, Ranks sum_ranks,
                             const ExchangeShape& shape, LaidOutBuffer<Views> memory)
    : backend_(backend),
      ranks_(std::move(row_ranks)),
      sum_ranks_(std::move(sum_ranks)),
      shape_(shape),
      memory_(std::move(memory)),
      views_(memory_.views),
      outbox_(*ranks_),
      sum_outbox_(*sum_ranks_),
      sender_(outbox_, views_.sent),
      receiver_(*ranks_, views_.received),
      experts_(shape.n_experts),
      tokens_(static_cast<std::size_t>(shape.max_tokens)),
      last_chunk_(static_cast<std::size_t>(shape.max_tokens)),
      first_complete_(static_cast<std::size_t>(ranks_->size() * kMaxExpertChunks + 1)) {}

Status SlicedExperts::Run(const ExpertWork& work) {
  n_tokens_ = work.x.rows;
  const std::int64_t k = work.routing.ids.cols;
  if (Status fits = CheckTokens(n_tokens_, shape_.max_tokens); !fits) return fits;
  if (Status done = backend_.Synchronize(); !done) return done;
  n_summed_ = 0;
  OrderExperts(work);
  OrderTokens(work);
  CopyInOrder(work);
  const Piece mine = Slice(ranks_->rank());
  Status status = receiver_.Begin(views_.ids.Rows(mine.first, mine.count),
                                  views_.homes.Rows(mine.first, mine.count), experts_,
                                  work.rows.Rows(mine.first * k, mine.count * k));
  if (status) status = ExpectSums();
  if (status) status = Compute(work);
  return status ? Finish(work) : status;
}

// Takes the first tokens of all slices, then the second tokens, ...: every owner has sums to send
// early.
void SlicedExperts::OrderExperts(const ExpertWork& work) {
  const Matrix<std::int32_t> homes = views_.token_homes.Rows(0, n_tokens_);
  FindHomes(work.routing.ids, work.positions, work.home, homes);
  std::size_t n = 0;
  for (std::int64_t i = 0; n < static_cast<std::size_t>(n_tokens_); ++i) {
    for (int owner = 0; owner < ranks_->size(); ++owner) {
      if (const Piece slice = Slice(owner); i < slice.count) {
        tokens_[n++] = slice.first + i;
      }
    }
  }
  experts_.ByFirstUse(work.routing.ids, homes, std::span(tokens_).first(n), ranks_->size(),
                      CountChunks(shape_, n_tokens_, ranks_->size()));
}

// Orders each slice by the last chunk that a token needs.
void SlicedExperts::OrderTokens(const ExpertWork& work) {
  for (std::int64_t token = 0; token < n_tokens_; ++token) {
    int last = 0;
    for (const std::int32_t id : work.routing.ids.RowSpan(token)) {
      last = id == kRemoteExpert ? last : std::max(last, experts_.Chunk(id));
    }
    last_chunk_[static_cast<std::size_t>(token)] = last;
  }
  std::int64_t next = 0;
  for (int owner = 0; owner < ranks_->size(); ++owner) {
    const Piece slice = Slice(owner);
    for (int chunk = 0; chunk < experts_.n_chunks(); ++chunk) {
      first_complete_[static_cast<std::size_t>(owner * experts_.n_chunks() + chunk)] = next;
      for (std::int64_t token = slice.first; token < slice.first + slice.count; ++token) {
        if (last_chunk_[static_cast<std::size_t>(token)] == chunk) {
          tokens_[static_cast<std::size_t>(next++)] = token;
        }
      }
    }
  }
  first_complete_[static_cast<std::size_t>(ranks_->size() * experts_.n_chunks())] = next;
}

void SlicedExperts::CopyInOrder(const ExpertWork& work) {
  const std::int64_t k = work.routing.ids.cols;
  for (std::int64_t row = 0; row < n_tokens_; ++row) {
    const std::int64_t token = tokens_[static_cast<std::size_t>(row)];
    std::copy_n(work.x.Row(token), work.x.cols, views_.x.Row(row));
    std::copy_n(work.routing.ids.Row(token), k, views_.ids.Row(row));
    std::copy_n(work.routing.weights.Row(token), k, views_.weights.Row(row));
    std::copy_n(views_.token_homes.Row(token), k, views_.homes.Row(row));
  }
}

Status SlicedExperts::ExpectSums() {
  incoming_.clear();
  for (int owner = 0; owner < ranks_->size(); ++owner) {
    for (int chunk = 0; owner != ranks_->rank() && chunk < experts_.n_chunks(); ++chunk) {
      if (const Piece rows = CompleteWith(owner, chunk); rows.count > 0) {
        incoming_.push_back({owner, AsBytes(views_.sums.Rows(rows.first, rows.count))});
      }
    }
  }
  Result<std::unique_ptr<Exchange>> started = sum_ranks_->Start({}, incoming_);
  if (!started) return Unexpected(started.error());
  sums_ = std::move(*started);
  return {};
}

// Runs the shared expert in the middle. Earlier, its exchange would wait for ranks that are slower
// at first and faster later; later, sums would wait for the shared expert: tokens are complete
// mostly in the second half of the chunks.
Status SlicedExperts::Compute(const ExpertWork& work) {
  sender_.Begin();
  const int shared_after = (experts_.n_chunks() - 1) / 2;
  Status status;
  for (int chunk = 0; status && chunk < experts_.n_chunks(); ++chunk) {
    status = ComputeChunk(work, chunk);
    if (status) status = receiver_.Poll();
    if (status && chunk == shared_after) status = RunShared(work);
    if (status && chunk >= shared_after) status = SendSums(work, chunk + 1);
    if (status) status = outbox_.Poll();
  }
  return status;
}

// Computes a chunk for all tokens and sends the rows of other owners immediately.
Status SlicedExperts::ComputeChunk(const ExpertWork& work, int chunk) {
  const std::int64_t k = work.routing.ids.cols;
  const Matrix<std::int32_t> chosen = views_.chosen.Rows(0, n_tokens_);
  ChooseHere(views_.ids.Rows(0, n_tokens_), views_.homes, ranks_->rank(), chosen);
  ChooseChunk(chosen, experts_, chunk, chosen);
  Status status =
      work.local(views_.x.Rows(0, n_tokens_),
                 {.ids = chosen, .weights = views_.weights.Rows(0, n_tokens_)}, work.rows);
  if (status) status = backend_.Synchronize();
  // Each rank begins with a different receiver.
  for (int step = 1; status && step < ranks_->size(); ++step) {
    const int to = (ranks_->rank() + step) % ranks_->size();
    const Piece slice = Slice(to);
    status = sender_.Send(to, chosen.Rows(slice.first, slice.count),
                          work.rows.Rows(slice.first * k, slice.count * k));
  }
  return status;
}

Status SlicedExperts::RunShared(const ExpertWork& work) {
  Status ran = work.shared();
  if (ran) ran = backend_.Synchronize();
  if (!ran) return ran;
  const Piece mine = Slice(ranks_->rank());
  for (std::int64_t row = mine.first; row < mine.first + mine.count; ++row) {
    const std::int64_t token = tokens_[static_cast<std::size_t>(row)];
    std::copy_n(work.y.Row(token), work.y.cols, views_.sums.Row(row));
  }
  return {};
}

Status SlicedExperts::SendSums(const ExpertWork& work, int n_computed) {
  const std::int64_t k = work.routing.ids.cols;
  for (const int n = std::min(n_computed, receiver_.n_complete()); n_summed_ < n; ++n_summed_) {
    const Piece complete = CompleteWith(ranks_->rank(), n_summed_);
    if (complete.count == 0) continue;
    const Matrix<Bf16> sums = views_.sums.Rows(complete.first, complete.count);
    backend_.CombineExperts(work.rows.Rows(complete.first * k, complete.count * k), sums, sums);
    if (Status done = backend_.Synchronize(); !done) return done;
    for (int step = 1; step < ranks_->size(); ++step) {
      const Outgoing message = {(ranks_->rank() + step) % ranks_->size(), AsBytes(sums)};
      if (Status sent = sum_outbox_.Send({&message, 1}); !sent) return sent;
    }
  }
  return {};
}

Status SlicedExperts::Finish(const ExpertWork& work) {
  Status status;
  while (status && n_summed_ < experts_.n_chunks()) {
    status = receiver_.WaitForMore();
    if (status) status = SendSums(work, experts_.n_chunks());
  }
  if (status) status = receiver_.Finish();
  if (status) status = sums_->Wait();
  if (status) status = outbox_.Finish();
  if (status) status = sum_outbox_.Finish();
  for (std::int64_t row = 0; status && row < n_tokens_; ++row) {
    const std::int64_t token = tokens_[static_cast<std::size_t>(row)];
    std::copy_n(views_.sums.Row(row), work.y.cols, work.y.Row(token));
  }
  return status;
}

}  // namespace fathom::experts
