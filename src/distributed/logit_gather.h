// LogitGather: brings the logits of a step from the ranks of the last stage to rank 0. In a
// pipeline the logits of several steps may be in flight: while the last stage computes a step, the
// first runs the next ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "distributed/model_ranks.h"

namespace fathom::distributed {

// All ranks make the same calls of Start. One thread at a time.
class LogitGather {
 public:
  // logits [rows, vocabulary]; shards [LogitSlots * rows, vocabulary]: scratch. All must outlive
  // this object; `logits` is set before the first call.
  LogitGather(const ModelRanks& ranks, const Matrix<float>& logits, const Matrix<float>& shards);

  // Returns the matrix where a rank of the last stage writes n rows of logits: [n, its columns of
  // the vocabulary].
  Matrix<float> Shard(std::int64_t n) const;
  // Sends the n rows of Shard(n) to rank 0; rank 0 begins to receive n rows. A slot (0 to
  // LogitSlots - 1) is in use until Finish.
  Status Start(std::int64_t n, int slot);
  // Advances the messages without waiting.
  Status Poll();
  // Returns n rows [vocabulary] on rank 0, valid until the next Shard or Finish; elsewhere no rows.
  Result<Matrix<const float>> Finish(int slot);

 private:
  struct Slot {
    bool taken = false;
    std::int64_t n = 0;
    std::unique_ptr<Exchange> exchange;  // null: nothing to receive
  };
  // Returns true if one rank has the whole head and needs the logits itself.
  bool IsWhole() const { return ranks_.shard.n_stage_ranks() * ranks_.shard.n_stages == 1; }
  Matrix<float> RankShard(int stage_rank, std::int64_t n, int slot) const;
  Status Receive(std::int64_t n, int slot);

  const ModelRanks& ranks_;
  const Matrix<float>& logits_;
  const Matrix<float>& shards_;
  std::vector<Slot> slots_;
  std::vector<Incoming> incoming_;
};

}  // namespace fathom::distributed
