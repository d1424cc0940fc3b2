#include "model/cache_shape.h"

#include <iterator>

#include "model/draft/drafters.h"

namespace fathom::model {

CacheShape MakeCacheShape(const ModelConfig& config, const ModelOptions& options,
                          const DrafterKind* drafter) {
  CacheShape shape = {.keys = {config.head_dim, config.qk_rope_head_dim},
                      .sliding_window = config.sliding_window,
                      .max_context = options.max_context,
                      .n_sequences = options.max_sequences,
                      .rollback = kRollbackTokens,
                      .memory_bytes = options.kv_memory_bytes};
  const auto n_layers = static_cast<std::ptrdiff_t>(config.num_hidden_layers);
  shape.ratios.assign(config.compress_ratios.begin(), config.compress_ratios.begin() + n_layers);
  if (drafter != nullptr) {
    const DraftSizes sizes = drafter->sizes(config);
    shape.ratios.insert(shape.ratios.end(), sizes.ratios.begin(), sizes.ratios.end());
    if (sizes.keys_follow_tokens) {
      shape.n_draft_layers = std::ssize(sizes.ratios);
      shape.lookahead = kRollbackTokens;
    }
    shape.stream_bytes = sizes.stream_bytes;
    shape.deferred_bytes = sizes.deferred_bytes;
  }
  return shape;
}

}  // namespace fathom::model
