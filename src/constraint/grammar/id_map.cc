#include "constraint/grammar/id_map.h"

#include <algorithm>
#include <bit>

namespace fathom::constraint {

// Four consecutive keys are next to each other, because an expression is derived by many symbols.
// The slot grows with the hash, so that a table is copied to a larger one from front to end.
std::size_t IdMap::FindSlot(std::uint64_t key) const {
  const std::uint64_t group = (key / kKeysPerGroup * 0x9E3779B97F4A7C15ULL) >> group_shift_;
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = group * kKeysPerGroup + key % kKeysPerGroup;
  while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
  return at;
}

std::uint32_t IdMap::Find(std::uint64_t key) const {
  if (slots_.empty()) return kNone;
  const Slot& slot = slots_[FindSlot(key)];
  return slot.key == key ? slot.value : kNone;
}

void IdMap::Set(std::uint64_t key, std::uint32_t value) {
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Slot> old(std::max<std::size_t>(kLeastSlots, 2 * slots_.size()));
    old.swap(slots_);
    group_shift_ = 64 - std::countr_zero(slots_.size() / kKeysPerGroup);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[FindSlot(slot.key)] = slot;
    }
  }
  Slot& slot = slots_[FindSlot(key)];
  if (slot.key == kFree) ++size_;
  slot = {.key = key, .value = value};
}

void IdMap::Clear() {
  slots_.clear();
  size_ = 0;
}

}  // namespace fathom::constraint
