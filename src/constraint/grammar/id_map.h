// IdMap: a hash table from 64-bit keys to ids, without deletion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::constraint {

class IdMap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  // kNone if there is no such key.
  std::uint32_t Find(std::uint64_t key) const;
  // Sets the value of a key, which must not be ~0.
  void Set(std::uint64_t key, std::uint32_t value);
  void Clear();
  std::size_t memory() const { return slots_.capacity() * sizeof(Slot); }
  // The bytes of one entry: the table is a quarter to half full, or is being copied to one twice as
  // large.
  static constexpr std::size_t kBytesPerEntry = 48;

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    std::uint32_t value = 0;
  };
  std::size_t FindSlot(std::uint64_t key) const;

  static constexpr std::size_t kLeastSlots = 16;
  static constexpr std::uint64_t kKeysPerGroup = 4;
  std::vector<Slot> slots_;  // a power of two, at most half full
  int group_shift_ = 64;     // from a hash to the number of its group
  std::size_t size_ = 0;
};

}  // namespace fathom::constraint
