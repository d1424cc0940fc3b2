// Arena: the memory of an emulated device, which the host can access only while it is open.
//
// No two allocations share a page, so that the system can watch each of them (page_watch.h). They
// count as many bytes as on a device, but take more addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "tests/emulator/reserved_addresses.h"

namespace fathom::kernels::emulator {

// One thread at a time.
class Arena {
 public:
  // Limits all allocations to `bytes`, each rounded up to 256 bytes, with a gap of 256.
  explicit Arena(std::int64_t bytes);
  ~Arena();

  // Returns zeroed memory, aligned to a page; null if there is no room.
  std::byte* Allocate(std::int64_t bytes);
  void Free(std::byte* memory);
  std::int64_t free_bytes() const { return free_bytes_; }

  // Returns all memory that has ever been allocated, in whole pages.
  std::span<std::byte> used() const;
  bool HasUsed(const std::byte* address) const;
  // Changes the allowed access to whole pages of used(), which must be open.
  void Allow(std::span<std::byte> pages, ReservedAddresses::Access access);
  // Describes an address of used(), for errors: "byte 12 of an allocation of 400 bytes".
  std::string Describe(const std::byte* address) const;

  // Opens the memory for the lifetime of this object. May be nested.
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
  struct Allocation {
    std::int64_t bytes = 0;      // requested bytes
    std::int64_t addresses = 0;  // whole pages
  };

  std::int64_t page_bytes_;
  ReservedAddresses addresses_;
  std::int64_t free_bytes_;
  std::int64_t used_end_ = 0;  // nothing beyond it has ever been allocated
  int n_openings_ = 0;
  std::map<std::int64_t, std::int64_t> free_;     // offset to addresses; neighbours are merged
  std::map<std::int64_t, Allocation> allocated_;  // by offset
};

}  // namespace fathom::kernels::emulator
