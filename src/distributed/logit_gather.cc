#include "distributed/logit_gather.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace fathom::distributed {

LogitGather::LogitGather(const ModelRanks& ranks, const Matrix<float>& logits,
                         const Matrix<float>& shards)
    : ranks_(ranks),
      logits_(logits),
      shards_(shards),
      slots_(static_cast<std::size_t>(LogitSlots(ranks.shard))) {
  incoming_.reserve(static_cast<std::size_t>(ranks.shard.n_stage_ranks()));
}

Matrix<float> LogitGather::RankShard(int stage_rank, std::int64_t n, int slot) const {
  const std::int64_t width = logits_.cols / ranks_.shard.n_stage_ranks();
  const std::int64_t first = slot * logits_.rows * logits_.cols;
  return {shards_.data + first + stage_rank * n * width, n, width};
}

Matrix<float> LogitGather::Shard(std::int64_t n) const {
  return IsWhole() ? logits_.Rows(0, n) : RankShard(ranks_.shard.stage_rank(), n, 0);
}

Status LogitGather::Start(std::int64_t n, int slot) {
  Check(slot >= 0 && slot < std::ssize(slots_), "a slot for logits");
  Slot& taken = slots_[static_cast<std::size_t>(slot)];
  Check(!taken.taken, "a free slot for logits");
  taken = {.taken = true, .n = n, .exchange = nullptr};
  if (IsWhole() || n == 0) return {};
  if (ranks_.all->rank() == 0) return Receive(n, slot);
  return ranks_.shard.is_last_stage() ? ranks_.all->Send(0, AsBytes(Shard(n))) : Status();
}

Status LogitGather::Receive(std::int64_t n, int slot) {
  const ModelShard& shard = ranks_.shard;
  const int first = shard.n_stage_ranks() * (shard.n_stages - 1);  // rank of the last stage
  incoming_.clear();
  for (int r = 0; r < shard.n_stage_ranks(); ++r) {
    if (first + r != 0) {
      incoming_.push_back({first + r, AsBytes(RankShard(r, n, slot))});
    }
  }
  Result<std::unique_ptr<Exchange>> started = ranks_.all->Start({}, incoming_);
  if (!started) return Unexpected(started.error());
  slots_[static_cast<std::size_t>(slot)].exchange = *std::move(started);
  return {};
}

Status LogitGather::Poll() {
  for (const Slot& slot : slots_) {
    if (slot.exchange != nullptr) {
      if (const Result<bool> polled = slot.exchange->Poll(); !polled) {
        return Unexpected(polled.error());
      }
    }
  }
  return {};
}

Result<Matrix<const float>> LogitGather::Finish(int slot) {
  Slot& taken = slots_[static_cast<std::size_t>(slot)];
  Check(taken.taken, "logits that were started");
  taken.taken = false;
  const Matrix<float> all = logits_.Rows(0, taken.n);
  if (IsWhole() || taken.n == 0) return all;
  if (ranks_.all->rank() != 0) return all.Rows(0, 0);
  if (Status received = std::exchange(taken.exchange, nullptr)->Wait(); !received) {
    return Unexpected(received.error());
  }
  for (int r = 0; r < ranks_.shard.n_stage_ranks(); ++r) {
    const Matrix<float> part = RankShard(r, taken.n, slot);
    for (std::int64_t row = 0; row < taken.n; ++row) {
      std::memcpy(all.Row(row) + r * part.cols, part.Row(row),
                  static_cast<std::size_t>(part.cols) * sizeof(float));
    }
  }
  return all;
}

}  // namespace fathom::distributed
