// One transformer block of DeepSeek-V4 (docs/spec/model.md 2): the same code for every layer kind,
// for prefill and decoding, and for the MTP head.
#pragma once

#include <span>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/expert_admission.h"
#include "model/expert_exchange.h"
#include "model/index_partition.h"
#include "model/model_ranks.h"
#include "model/placed_experts.h"
#include "model/routing_observer.h"
#include "model/row_gather.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom {

// A step's surroundings, the same for every layer. Views only.
struct Step {
  Backend& backend;
  const ModelConfig& config;
  BatchView batch;
  Activations a;  // with batch.n_tokens() rows
  std::span<const float> compress_frequencies;
  const RoutingObserver& routing_observer;  // may be empty
  ExpertAdmission& admission;
  PlacedExperts& experts;
  const ModelRanks& ranks;
  const IndexPartition& index_cut;                 // has taken the batch
  RowGather& row_gather;                           // where tensor ranks divide the compressed rows
  ExpertExchange* exchange = nullptr;              // null: this rank has all experts
  std::span<const std::int64_t> tokens_of_rank{};  // of this step, of data ranks

  HcOptions hc_options() const {
    return {.sinkhorn_iterations = config.hc_sinkhorn_iters,
            .eps = config.hc_eps,
            .norm_eps = config.rms_norm_eps};
  }
  // The RoPE table of a layer depends on its kind alone.
  RopeRows Rope(int ratio) const {
    return ratio == 0 ? RopeRows{a.window_cos, a.window_sin}
                      : RopeRows{a.compress_cos, a.compress_sin};
  }
};

// streams [t, 4 d] in place. Reads and extends the layer's cache. Pieces of experts that are on
// their way to other ranks travel meanwhile. Error: the weights of an expert that is needed are
// invalid, or a rank cannot be reached; what streams and cache hold then is of no use.
Status RunBlock(const Step& step, const BlockWeights& weights, LayerCache& cache,
                Matrix<Bf16> streams);

}  // namespace fathom
