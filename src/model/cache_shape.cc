#include "model/cache_shape.h"

#include <algorithm>
#include <vector>

#include "base/float_types.h"
#include "comm/communicator.h"
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
  const ModelShard share = options.ranks != nullptr ? options.ranks->share : WholeModel(config);
  const auto n_layers = static_cast<std::ptrdiff_t>(config.num_hidden_layers);
  shape.ratios.assign(config.compress_ratios.begin(), config.compress_ratios.begin() + n_layers);
  shape.rows_of_ratio_4 = share.RowsOfRatio4();
  shape.data = share.data();
  shape.first_layer = share.first_layer;
  if (!share.is_last_stage()) {
    shape.end_layer = share.end_layer;
  }
  if (options.with_mtp) {
    shape.ratios.push_back(0);
    shape.n_draft_layers = 1;
    shape.lookahead = kRollbackTokens;
    shape.stream_bytes = kStreams * config.hidden_size * static_cast<std::int64_t>(sizeof(Bf16));
  }
  return shape;
}

// Stages have layers of different sizes, hosts have more or less memory, and blocks have the same
// numbers on all ranks.
Result<CacheShape> AgreedCacheShape(const ModelConfig& config, const ModelOptions& options) {
  CacheShape shape = CacheShapeOf(config, options);
  if (options.ranks == nullptr) {
    return shape;
  }
  const Result<std::int64_t> mine = SequenceCache::SlabsFor(shape);
  if (!mine) {
    return Unexpected(mine.error());
  }
  const Result<std::vector<std::int64_t>> all = options.ranks->all->GatherEach(*mine);
  if (!all) {
    return Unexpected(all.error());
  }
  shape.most_slabs = *std::min_element(all->begin(), all->end());
  return shape;
}

}  // namespace fathom
