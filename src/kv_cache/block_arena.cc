#include "kv_cache/block_arena.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::kv_cache {
namespace {

constexpr std::int64_t kBits = 64;

void Set(std::vector<std::uint64_t>& bits, std::int64_t i, bool value) {
  std::uint64_t& word = bits[static_cast<std::size_t>(i / kBits)];
  const std::uint64_t mask = std::uint64_t{1} << (i % kBits);
  word = value ? word | mask : word & ~mask;
}

}  // namespace

BlockArena::BlockArena(std::int64_t n_slabs, std::int64_t histories_per_slab,
                       std::int64_t history_slabs)
    : n_slabs_(n_slabs),
      per_slab_(histories_per_slab),
      reserved_(history_slabs),
      uses_{.history =
                std::vector<std::int32_t>(static_cast<std::size_t>(n_slabs * histories_per_slab)),
            .window = std::vector<std::int32_t>(static_cast<std::size_t>(n_slabs))},
      taken_(static_cast<std::size_t>(n_slabs)),
      free_(static_cast<std::size_t>(DivideUp(n_slabs, kBits))),
      partial_(free_.size()),
      n_free_common_(n_slabs - history_slabs),
      n_free_reserved_(history_slabs) {
  Check(per_slab_ >= 1 && per_slab_ <= kBits, "1 to 64 history blocks of a slab");
  Check(reserved_ >= 0 && reserved_ <= n_slabs_, "reserved slabs are some of the slabs");
  for (std::int64_t slab = 0; slab < n_slabs_; ++slab) {
    Set(free_, slab, true);
  }
}

std::int64_t BlockArena::Lowest(const std::vector<std::uint64_t>& bits) {
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) return static_cast<std::int64_t>(i) * kBits + std::countr_zero(bits[i]);
  }
  return -1;
}

std::int64_t BlockArena::Highest(const std::vector<std::uint64_t>& bits) {
  for (std::size_t i = bits.size(); i-- > 0;) {
    if (bits[i] != 0) {
      return static_cast<std::int64_t>(i) * kBits + kBits - 1 - std::countl_zero(bits[i]);
    }
  }
  return -1;
}

bool BlockArena::HasRoom(const BlockCounts& blocks) const {
  const std::int64_t in_slabs = std::max<std::int64_t>(blocks.history - n_free_in_partial_, 0);
  const std::int64_t slabs = DivideUp(in_slabs, per_slab_);
  return blocks.window + std::max<std::int64_t>(slabs - n_free_reserved_, 0) <= n_free_common_;
}

std::optional<std::int32_t> BlockArena::AllocateHistory() {
  std::int64_t slab = Lowest(partial_);
  if (slab < 0) {
    slab = Lowest(free_);
    if (slab < 0) return std::nullopt;
    (slab < reserved_ ? n_free_reserved_ : n_free_common_) -= 1;
    n_free_in_partial_ += per_slab_;
    Set(free_, slab, false);
    Set(partial_, slab, true);
  }
  std::uint64_t& taken = taken_[static_cast<std::size_t>(slab)];
  const int place = std::countr_one(taken);
  taken |= std::uint64_t{1} << place;
  n_free_in_partial_ -= 1;
  if (std::popcount(taken) == per_slab_) {
    Set(partial_, slab, false);
  }
  return static_cast<std::int32_t>(slab * per_slab_ + place);
}

std::optional<std::int32_t> BlockArena::Allocate(BlockKind kind) {
  std::optional<std::int32_t> block;
  if (kind == BlockKind::kHistory) {
    block = AllocateHistory();
  } else if (n_free_common_ > 0) {  // the reserved slabs are the lowest
    const std::int64_t slab = Highest(free_);
    Set(free_, slab, false);
    n_free_common_ -= 1;
    block = static_cast<std::int32_t>(slab);
  }
  if (block) {
    uses_.Of(kind)[static_cast<std::size_t>(*block)] = 1;
    in_use_.Of(kind) += 1;
  }
  return block;
}

void BlockArena::Share(BlockKind kind, std::int32_t block) {
  std::vector<std::int32_t>& uses = uses_.Of(kind);
  Check(block >= 0 && block < std::ssize(uses) && uses[static_cast<std::size_t>(block)] > 0,
        "sharing a block that is not in use");
  uses[static_cast<std::size_t>(block)] += 1;
}

void BlockArena::Free(BlockKind kind, std::int32_t block) {
  std::vector<std::int32_t>& uses = uses_.Of(kind);
  Check(block >= 0 && block < std::ssize(uses) && uses[static_cast<std::size_t>(block)] > 0,
        "freeing a block that is not in use");
  if (--uses[static_cast<std::size_t>(block)] == 0) {
    in_use_.Of(kind) -= 1;
    FreeInSlab(kind, block);
  }
}

void BlockArena::FreeInSlab(BlockKind kind, std::int32_t block) {
  std::int64_t slab = block;
  if (kind == BlockKind::kHistory) {
    slab = block / per_slab_;
    std::uint64_t& taken = taken_[static_cast<std::size_t>(slab)];
    taken &= ~(std::uint64_t{1} << (block % per_slab_));
    n_free_in_partial_ += 1;
    Set(partial_, slab, taken != 0);
    if (taken != 0) return;
    n_free_in_partial_ -= per_slab_;
  }
  Set(free_, slab, true);
  (slab < reserved_ ? n_free_reserved_ : n_free_common_) += 1;
}

}  // namespace fathom::kv_cache
