// Arena: the memory of an emulated device, which the host can touch only while it is open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/emulator/reserved_addresses.h"

namespace fathom::emulator {

// Threads: one at a time.
class Arena {
 public:
  // Aligned to 256 bytes, of at most `bytes` in all.
  explicit Arena(std::int64_t bytes);
  ~Arena();

  // Zeroed memory; null if there is no room.
  std::byte* Allocate(std::int64_t bytes);
  void Free(std::byte* memory);
  std::int64_t free_bytes() const;

  // Opens the memory as long as it lives. May be nested.
  class Opening {
   public:
    explicit Opening(Arena& arena);
    ~Opening();
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    Arena& arena_;
  };

 private:
  ReservedAddresses addresses_;
  std::int64_t bytes_;
  std::int64_t used_end_ = 0;  // nothing behind it has ever been allocated
  int n_openings_ = 0;
  std::map<std::int64_t, std::int64_t> free_;       // offset to bytes; neighbours are merged
  std::map<std::int64_t, std::int64_t> allocated_;  // offset to bytes, gaps included
};

}  // namespace fathom::emulator
