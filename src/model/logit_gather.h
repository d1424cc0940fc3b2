// LogitGather: brings the logits of a step from the ranks of the last stage to rank 0.
//
// In a pipeline those of several steps may be on their way: while the last stage computes a step,
// the first can run the next ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "model/model_ranks.h"
#include "model/workspace.h"

namespace fathom {

// The same calls of Start on all ranks. One thread at a time. Uses a.logits and a.logit_shares.
class LogitGather {
 public:
  // Of as many steps as a.logit_shares has room for. Must not outlive either.
  LogitGather(const ModelRanks& ranks, const Activations& a);

  // Where a rank of the last stage writes n rows of logits: [n, its share of the vocabulary].
  Matrix<float> Share(std::int64_t n) const;
  // Sends what was written there to rank 0; rank 0 begins to receive n rows. A place is 0 to the
  // number of steps - 1, and is taken until Finish.
  Status Start(std::int64_t n, int place);
  // Moves what can be moved without waiting.
  Status Poll();
  // n rows [vocabulary] on rank 0, valid until the next call of Share or Finish; no rows elsewhere.
  Result<Matrix<const float>> Finish(int place);

 private:
  struct Place {
    bool taken = false;
    std::int64_t n = 0;
    std::unique_ptr<Exchange> exchange;  // null: nothing to receive
  };
  bool IsWhole() const;
  Matrix<float> ShareOf(int stage_rank, std::int64_t n, int place) const;
  Status Receive(std::int64_t n, int place);

  const ModelRanks& ranks_;
  const Activations& a_;
  std::vector<Place> places_;
  std::vector<Incoming> incoming_;
};

// Steps whose logits this rank may await at once: as many as there are stages, where it is in the
// first of them.
inline int MostLogitPlaces(const ModelShard& share) {
  return share.is_first_stage() ? share.n_stages : 1;
}

}  // namespace fathom
