// The memory of a backend, and the records of copies within it.
//
// Operations find their matrices by addresses of the backend. On a device such an address means
// nothing to the host: no code outside kernels/ reads or writes through one. Bytes are copied by
// Backend::Upload, Download and CopyPieces, or are in memory that both sides share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fathom::kernels {

enum class MemoryKind : std::uint8_t {
  kDevice,  // the memory that the operations read fastest
  kShared,  // memory that the host can access too, at the same address; slower for a device
  // Like kShared, for data that operations only read: a device may keep it in its caches while
  // operations run. The host writes it only while no operation runs.
  kSharedReadOnly,
};

constexpr bool IsOnHost(MemoryKind kind) { return kind != MemoryKind::kDevice; }

// Memory of a backend: zeroed, aligned to 64 bytes, freed with the object, which must not outlive
// the backend.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  // Returns the address for operations.
  std::byte* address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }
  // Returns the memory for the host, at address(); empty if the host cannot access the memory.
  // Before the host uses the memory, it must wait (Backend::Synchronize, Wait) for the operations
  // that use it.
  std::span<std::byte> host() const {
    return {on_host_ ? address_ : nullptr, on_host_ ? static_cast<std::size_t>(bytes_) : 0};
  }

 protected:
  Buffer(std::byte* address, std::int64_t bytes, bool on_host)
      : address_(address), bytes_(bytes), on_host_(on_host) {}

 private:
  std::byte* address_;
  std::int64_t bytes_;
  bool on_host_;
};

// A copy within the memory of a backend. The two ranges do not overlap.
struct PieceCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;
};

// An entry of a block table (kernels/layer_cache.h) that has changed: its address in the backend's
// copy of the table, and the new block.
struct TableChange {
  std::int32_t* entry = nullptr;
  std::int32_t block = 0;
};

// A point in the order of the operations: after all that were called before Backend::Mark.
struct Ticket {
  std::uint64_t number = 0;
};

}  // namespace fathom::kernels
