// BlockPool: which of a fixed number of blocks are in use, and by how many.
#ifndef FATHOM_KV_CACHE_BLOCK_POOL_H_
#define FATHOM_KV_CACHE_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace fathom {

// Counts uses only; the memory is someone else's. A block is free when nobody uses it. Allocates
// nothing after its construction. One thread at a time.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t n_blocks);

  // A free block, now used once; none if all are in use.
  std::optional<std::int32_t> Take();
  // One use more, or less, of a block that is in use.
  void Share(std::int32_t block);
  void Return(std::int32_t block);

  std::int64_t n_blocks() const { return static_cast<std::int64_t>(uses_.size()); }
  std::int64_t n_free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int32_t uses(std::int32_t block) const { return uses_[static_cast<std::size_t>(block)]; }

 private:
  std::vector<std::int32_t> uses_;
  std::vector<std::int32_t> free_;  // the last one is taken next
};

}  // namespace fathom

#endif  // FATHOM_KV_CACHE_BLOCK_POOL_H_
