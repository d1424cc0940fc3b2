// ReservedAddresses: a range of addresses that cannot be accessed unless it is opened.
//
// Stands for the memory of an emulated device: the system kills a process that reads or writes it
// from the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::kernels::emulator {

class ReservedAddresses {
 public:
  enum class Access : std::uint8_t { kNone, kRead, kWrite };  // kWrite: to read, too

  // Reserves `bytes` (>= 0) of addresses, closed. Takes memory only where something is written.
  // Aborts if the system has no such range.
  explicit ReservedAddresses(std::int64_t bytes);
  ~ReservedAddresses();
  ReservedAddresses(const ReservedAddresses&) = delete;
  ReservedAddresses& operator=(const ReservedAddresses&) = delete;

  std::byte* address() const { return address_; }
  // Allows or forbids to read and write the first `bytes`.
  void Open(std::int64_t bytes) { Allow(0, bytes, Access::kWrite); }
  void Close(std::int64_t bytes) { Allow(0, bytes, Access::kNone); }
  // Allows exactly this access to whole pages.
  void Allow(std::int64_t offset, std::int64_t bytes, Access access);

 private:
  std::byte* address_ = nullptr;
  std::size_t mapped_bytes_;
};

}  // namespace fathom::kernels::emulator
