// SequenceCache: the cached state of a fixed number of sequences, in one piece of memory.
#ifndef FATHOM_KV_CACHE_SEQUENCE_CACHE_H_
#define FATHOM_KV_CACHE_SEQUENCE_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/layer_cache.h"
#include "kv_cache/layout.h"

namespace fathom {

// Owns the memory; hands out one LayerCache per layer of the shape. Nothing is ever cleared: what a
// query may see follows from its position, and every row is written before it becomes visible, so a
// slot is reused by starting at position 0 again. Must not outlive the backend.
class SequenceCache {
 public:
  static Result<SequenceCache> Create(Backend& backend, const CacheShape& shape);

  LayerCache& Layer(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  std::int64_t n_layers() const { return static_cast<std::int64_t>(layers_.size()); }
  std::int64_t bytes() const { return bytes_; }

 private:
  SequenceCache() = default;

  std::unique_ptr<Buffer> buffer_;
  std::vector<LayerCache> layers_;
  std::int64_t bytes_ = 0;
};

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_SEQUENCE_CACHE_H_
