// One transformer block of DeepSeek-V4 (docs/spec/model.md 2): the same code for every layer kind,
// for prefill and decoding, and for draft blocks.
#pragma once

#include <span>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/expert_layer.h"
#include "model/expert_store.h"
#include "model/forward_pass.h"
#include "model/routing_observer.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom::model {

// The inputs that all blocks of a pass share. Views only.
struct Step {
  Backend& backend;
  const ModelConfig& config;
  ForwardPass& pass;
  BatchView batch;  // the local rows of the pass
  Activations a;    // with batch.n_tokens() rows
  std::span<const float> compress_frequencies;
  const RoutingObserver& routing_observer;  // may be empty
  TensorParallel& tensor;
  ExpertStore& store;
  ExpertLayer& experts;
  // A block of drafts: the rows of a segment see each other, and their keys are not stored
  // (docs/spec/mtp.md 2.5).
  bool is_draft_block = false;

  HcOptions hc_options() const {
    return {.sinkhorn_iterations = config.hc_sinkhorn_iters,
            .eps = config.hc_eps,
            .norm_eps = config.rms_norm_eps};
  }
  // The RoPE table of a layer depends only on its kind.
  RopeRows Rope(int ratio) const {
    return ratio == 0 ? RopeRows{a.window_cos, a.window_sin}
                      : RopeRows{a.compress_cos, a.compress_sin};
  }
};

// Runs a block on streams [t, 4 d] in place. Reads and extends the layer's cache. `next`: the block
// that will run next, if its experts may be guessed; null: none. Errors: as step.tensor, step.store
// and step.experts; afterwards streams and cache are undefined.
Status RunBlock(const Step& step, const BlockWeights& weights, LayerCache& cache,
                Matrix<Bf16> streams, const BlockWeights* next = nullptr);

// Computes the window keys of x [t, d] into step.a.kv.
void WindowKeys(const Step& step, const AttentionWeights& weights, Matrix<const Bf16> x,
                const RopeRows& rope);

// Stores the keys that RunBlock stores for a block of ratio 0, if the outputs of the block are not
// needed: this takes a fraction of the work. streams [t, 4 d].
void StoreWindowKeys(const Step& step, const BlockWeights& weights, LayerCache& cache,
                     Matrix<const Bf16> streams);

}  // namespace fathom::model
