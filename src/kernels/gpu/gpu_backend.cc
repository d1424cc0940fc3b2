#include "kernels/gpu/gpu_backend.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/gpu_roofline.h"
#include "kernels/gpu/memory_sizes.h"

namespace fathom {
namespace {

constexpr std::int64_t kBytesOfBlock = std::int64_t{64} << 10;  // that one block copies

class GpuProfiler final : public Profiler {
 public:
  explicit GpuProfiler(ProfiledDriver& driver) : driver_(driver) {}
  Status Start() override { return driver_.StartProfile(); }
  void EnterPart(std::string_view part) override { driver_.EnterPart(part); }
  Result<Profile> Stop() override { return driver_.StopProfile(); }

 private:
  ProfiledDriver& driver_;
};

}  // namespace

GpuBackend::GpuBackend(std::unique_ptr<GpuDriver> driver, MakeHostBackend make_host)
    : driver_(std::make_unique<ProfiledDriver>(std::move(driver))),
      make_host_(std::move(make_host)),
      name_(driver_->device().name + ", " + driver_->device().architecture) {}

GpuBackend::~GpuBackend() {
  static_cast<void>(driver_->Synchronize());  // downloads end in marks_
}

Status GpuBackend::AllocateTo(std::unique_ptr<Buffer>& buffer, std::int64_t bytes,
                              MemoryKind kind) {
  buffer.reset();
  Result<std::unique_ptr<Buffer>> allocated = Allocate(bytes, kind);
  if (!allocated) return Unexpected(allocated.error());
  buffer = *std::move(allocated);
  return {};
}

Status GpuBackend::EnsureBytes(std::unique_ptr<Buffer>& buffer, std::int64_t bytes,
                               MemoryKind kind) {
  return buffer != nullptr && buffer->bytes() >= bytes ? Status() : AllocateTo(buffer, bytes, kind);
}

Result<std::unique_ptr<GpuBackend>> GpuBackend::Make(std::unique_ptr<GpuDriver> driver,
                                                     MakeHostBackend make_host) {
  std::unique_ptr<GpuBackend> backend(new GpuBackend(std::move(driver), std::move(make_host)));
  if (Status s = backend->AllocateTo(backend->fault_, sizeof(std::uint64_t)); !s) {
    return Unexpected(s.error());
  }
  if (Status s = backend->AllocateTo(backend->staged_, kGpuStagedBytes); !s) {
    return Unexpected(s.error());
  }
  return backend;
}

Result<std::unique_ptr<Buffer>> GpuBackend::Allocate(std::int64_t bytes, MemoryKind kind) {
  Result<std::unique_ptr<Buffer>> buffer = driver_->Allocate(bytes, kind);
  if (!buffer) return buffer;
  return ledger_.Add(*std::move(buffer));
}

Result<const std::byte*> GpuBackend::Import(std::span<const std::byte> bytes) {
  std::unique_ptr<Buffer> buffer;
  if (Status s = AllocateTo(buffer, std::ssize(bytes)); !s) return Unexpected(s.error());
  Upload(buffer->address(), bytes);
  imported_.push_back(std::move(buffer));
  return imported_.back()->address();
}

Status GpuBackend::Reserve(const StepLimits& limits) {
  if (Status s = batch_.Reserve(*driver_, limits.max_tokens); !s) return s;
  const GpuScratchSizes sizes = GpuScratchFor(limits);
  const std::pair<std::unique_ptr<Buffer>*, std::int64_t> buffers[] = {{&codes_, sizes.codes},
                                                                       {&scales_, sizes.scales},
                                                                       {&embedded_, sizes.embedded},
                                                                       {&hidden_, sizes.hidden},
                                                                       {&scores_, sizes.scores}};
  for (const auto& [buffer, bytes] : buffers) {
    if (Status s = AllocateTo(*buffer, bytes); !s) return s;
  }
  if (host_experts_) {
    if (Status s = host_experts_->Reserve(*driver_, limits); !s) return s;
  }
  if (Status s = sampler_.Reserve(*this, limits.max_logit_rows, limits.vocabulary); !s) return s;
  host_rows_.reserve(static_cast<std::size_t>(limits.max_tokens * limits.hidden));
  row_counts_.reserve(static_cast<std::size_t>(limits.max_tokens));
  limits_ = limits;
  return {};
}

Result<std::unique_ptr<RooflineProbe>> GpuBackend::MakeRooflineProbe(
    const RooflineOptions& options) const {
  return MakeGpuRooflineProbe(driver_->inner(), options);
}

Result<std::unique_ptr<Profiler>> GpuBackend::MakeProfiler() {
  return std::make_unique<GpuProfiler>(*driver_);
}

void GpuBackend::Upload(void* to, std::span<const std::byte> from) { driver_->Upload(to, from); }

void GpuBackend::Download(std::span<std::byte> to, const void* from) {
  driver_->Download(to, from);
}

void GpuBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  ForStageable(pieces, [&](std::span<const PieceCopy> some) {
    std::int64_t most_bytes = 0;
    for (const PieceCopy& piece : some) {
      most_bytes = std::max(most_bytes, piece.bytes);
    }
    const std::int64_t splits = DivideUp(most_bytes, kBytesOfBlock);
    Launch(GpuKernel::kCopyPieces, std::ssize(some) * splits,
           gpu::CopyPiecesArguments{.pieces = Stage(some), .splits = splits});
  });
}

Ticket GpuBackend::Mark() {
  MarkedPoint& point = marks_[++n_marks_ % kTickets];
  driver_->Download(std::as_writable_bytes(std::span(&point.fault, 1)), fault_->address());
  point.ticket = driver_->Mark();
  return {n_marks_};
}

Status GpuBackend::Wait(Ticket ticket) {
  const MarkedPoint& point = marks_[ticket.number % kTickets];
  if (Status s = driver_->Wait(point.ticket); !s) return s;
  if (!kept_) return kept_;
  if (point.fault != 0) {
    fault_word_.Set(static_cast<Fault>(point.fault >> 32),
                    static_cast<std::int64_t>(point.fault & 0xFFFFFFFFu));
    constexpr std::uint64_t kNoFault = 0;
    driver_->Upload(fault_->address(), std::as_bytes(std::span(&kNoFault, 1)));
  }
  return fault_word_.Take();
}

Status GpuBackend::BeginStep(const BatchView& batch, std::span<const TableChange> changes) {
  batch_.Begin(*driver_, batch);
  ForStageable(changes, [&](std::span<const TableChange> some) {
    Launch(GpuKernel::kChangeTables, 1,
           gpu::ChangeTablesArguments{.changes = Stage(some), .n = std::ssize(some)});
  });
  return {};
}

}  // namespace fathom
