#include "tests/emulator/reserved_addresses.h"

#include <sys/mman.h>

#include "base/check.h"

namespace fathom::kernels::emulator {

ReservedAddresses::ReservedAddresses(std::int64_t bytes)
    : mapped_bytes_(static_cast<std::size_t>(bytes + 1)) {
  void* memory =
      ::mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Check(memory != MAP_FAILED, "addresses for memory of a device that is not there");
  address_ = static_cast<std::byte*>(memory);
}

ReservedAddresses::~ReservedAddresses() { ::munmap(address_, mapped_bytes_); }

void ReservedAddresses::Allow(std::int64_t offset, std::int64_t bytes, Access access) {
  const int allowed = access == Access::kWrite  ? PROT_READ | PROT_WRITE
                      : access == Access::kRead ? PROT_READ
                                                : PROT_NONE;
  Check(bytes == 0 || ::mprotect(address_ + offset, static_cast<std::size_t>(bytes), allowed) == 0,
        "memory of a device that is not there");
}

}  // namespace fathom::kernels::emulator
