#include "kernels/reference/reference_backend.h"

#include <cstring>

#include "base/check.h"
#include "kernels/host_buffer.h"
#include "kernels/host_roofline.h"

namespace fathom::kernels {

Result<std::unique_ptr<Buffer>> ReferenceBackend::Allocate(std::int64_t bytes, MemoryKind) {
  return AllocateHostBuffer(bytes);
}

Result<std::vector<const std::byte*>> ReferenceBackend::Import(
    std::span<const std::span<const std::byte>> pieces) {
  std::vector<const std::byte*> addresses;
  for (const std::span<const std::byte> piece : pieces) addresses.push_back(piece.data());
  return addresses;
}

Status ReferenceBackend::Reserve(const StepLimits&) { return {}; }

Result<std::unique_ptr<RooflineProbe>> ReferenceBackend::MakeRooflineProbe(
    const RooflineOptions& options) const {
  return MakeHostRooflineProbe(Isa::kScalar, 1, {}, options);
}

void ReferenceBackend::Upload(void* to, std::span<const std::byte> from) {
  if (to != from.data() && !from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}

void ReferenceBackend::Download(std::span<std::byte> to, const void* from) {
  if (to.data() != from && !to.empty()) {
    std::memcpy(to.data(), from, to.size());
  }
}

void ReferenceBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  for (const PieceCopy& piece : pieces) {
    if (piece.to != piece.from && piece.bytes > 0) {
      std::memcpy(piece.to, piece.from, static_cast<std::size_t>(piece.bytes));
    }
  }
}

Status ReferenceBackend::BeginStep(const BatchView&, std::span<const TableChange> changes) {
  for (const TableChange& change : changes) {
    *change.entry = change.block;
  }
  return {};
}

void ReferenceBackend::Compute(const Operation& operation) {
  Check(ComputeLinear(operation) || ComputeNorm(operation) || ComputeHyper(operation) ||
            ComputeAttention(operation) || ComputeCompressor(operation) ||
            ComputeIndexer(operation) || ComputeExpert(operation) || ComputeTokens(operation),
        "an operation of a backend that does not have it");
}

}  // namespace fathom::kernels
