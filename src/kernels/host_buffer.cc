#include "kernels/host_buffer.h"

#include <utility>

#include "base/pages.h"

namespace fathom::kernels {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(PageMemory memory)
      : Buffer(memory.bytes().data(), std::ssize(memory.bytes()), /*on_host=*/true),
        memory_(std::move(memory)) {}

 private:
  PageMemory memory_;
};

}  // namespace

Result<std::unique_ptr<Buffer>> AllocateHostBuffer(std::int64_t bytes) {
  Result<PageMemory> memory = PageMemory::Allocate(bytes);
  if (!memory) return Unexpected(memory.error());
  return std::make_unique<HostBuffer>(*std::move(memory));
}

}  // namespace fathom::kernels
