#include "kernels/emulator/reserved_addresses.h"

#include <sys/mman.h>

#include "base/check.h"

namespace fathom::emulator {

ReservedAddresses::ReservedAddresses(std::int64_t bytes)
    : mapped_bytes_(static_cast<std::size_t>(bytes + 1)) {
  void* memory =
      ::mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Check(memory != MAP_FAILED, "addresses for memory of a device that is not there");
  address_ = static_cast<std::byte*>(memory);
}

ReservedAddresses::~ReservedAddresses() { ::munmap(address_, mapped_bytes_); }

void ReservedAddresses::Protect(std::int64_t bytes, bool open) {
  const int allowed = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  Check(bytes == 0 || ::mprotect(address_, static_cast<std::size_t>(bytes), allowed) == 0,
        "memory of a device that is not there");
}

}  // namespace fathom::emulator
