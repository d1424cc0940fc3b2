#include "kernels/reference/reference_backend.h"

#include "kernels/host_buffer.h"

namespace fathom {

Result<std::unique_ptr<Buffer>> ReferenceBackend::Allocate(std::int64_t bytes) {
  return AllocateHostBuffer(bytes);
}

Result<const std::byte*> ReferenceBackend::Import(std::span<const std::byte> weights) {
  return weights.data();
}

Status ReferenceBackend::Reserve(const StepLimits&) { return {}; }

}  // namespace fathom
