#include "model/cache_shape.h"

#include "base/float_types.h"
#include "kernels/backend.h"
#include "kv_cache/sequence_cache.h"

namespace fathom {

CacheShape CacheShapeOf(const ModelConfig& config, const ModelOptions& options) {
  CacheShape shape = {.keys = {config.head_dim, config.qk_rope_head_dim},
                      .sliding_window = config.sliding_window,
                      .max_context = options.max_context,
                      .n_sequences = options.max_sequences,
                      .rollback = kRollbackTokens,
                      .memory_bytes = options.kv_memory_bytes};
  const auto n_layers = static_cast<std::ptrdiff_t>(config.num_hidden_layers);
  shape.ratios.assign(config.compress_ratios.begin(), config.compress_ratios.begin() + n_layers);
  if (options.with_draft) {
    shape.ratios.push_back(0);
    shape.n_draft_layers = 1;
    shape.lookahead = kRollbackTokens;
    shape.stream_bytes = kStreams * config.hidden_size * static_cast<std::int64_t>(sizeof(Bf16));
  }
  return shape;
}

}  // namespace fathom
