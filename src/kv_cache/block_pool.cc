#include "kv_cache/block_pool.h"

#include "base/check.h"

namespace fathom {

BlockPool::BlockPool(std::int64_t n_blocks) : uses_(static_cast<std::size_t>(n_blocks)) {
  free_.reserve(uses_.size());
  for (std::int64_t block = n_blocks; block > 0; --block) {
    free_.push_back(static_cast<std::int32_t>(block - 1));
  }
}

std::optional<std::int32_t> BlockPool::Take() {
  if (free_.empty()) {
    return std::nullopt;
  }
  const std::int32_t block = free_.back();
  free_.pop_back();
  uses_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockPool::Share(std::int32_t block) {
  Check(block >= 0 && block < n_blocks() && uses(block) > 0, "sharing a block that is not in use");
  ++uses_[static_cast<std::size_t>(block)];
}

void BlockPool::Return(std::int32_t block) {
  Check(block >= 0 && block < n_blocks() && uses(block) > 0,
        "returning a block that is not in use");
  if (--uses_[static_cast<std::size_t>(block)] == 0) {
    free_.push_back(block);
  }
}

}  // namespace fathom
