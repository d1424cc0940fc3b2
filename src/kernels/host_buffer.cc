#include "kernels/host_buffer.h"

#include <sys/mman.h>

#include <cstddef>
#include <span>

#include "base/check.h"

namespace fathom {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~HostBuffer() override {
    if (!bytes_.empty()) {
      ::munmap(bytes_.data(), bytes_.size());
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  std::span<std::byte> bytes() override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<Buffer>> AllocateHostBuffer(std::int64_t bytes) {
  Check(bytes >= 0, "a buffer of negative size");
  std::span<std::byte> memory;
  if (bytes > 0) {
    const auto size = static_cast<std::size_t>(bytes);
    void* address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      return MakeError(ErrorCode::kOutOfMemory, "cannot allocate {} bytes of host memory", bytes);
    }
    memory = {static_cast<std::byte*>(address), size};
  }
  return std::make_unique<HostBuffer>(memory);
}

}  // namespace fathom
