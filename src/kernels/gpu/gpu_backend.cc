#include "kernels/gpu/gpu_backend.h"

#include <utility>

#include "base/check.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/gpu_roofline.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kBytesOfBlock = std::int64_t{64} << 10;  // bytes that one block copies

// Copies the changes, but only the last change of each entry: the threads that make the changes
// have no order.
void KeepLastChanges(std::span<const TableChange> changes, std::vector<TableChange>& kept) {
  kept.assign(changes.begin(), changes.end());
  const auto entry_is_less = [](const TableChange& a, const TableChange& b) {
    return std::less<>()(a.entry, b.entry);
  };
  if (std::ranges::adjacent_find(kept, std::not_fn(entry_is_less)) == kept.end()) return;
  std::ranges::stable_sort(kept, entry_is_less);
  std::ranges::reverse(kept);
  const auto same_entry = [](const TableChange& a, const TableChange& b) {
    return a.entry == b.entry;
  };
  kept.erase(std::unique(kept.begin(), kept.end(), same_entry), kept.end());
}

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
  static_cast<void>(driver_->Synchronize());  // downloads write to memory of the backend
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
  if (Status s = backend->AllocateFixed(); !s) return Unexpected(s.error());
  return backend;
}

Status GpuBackend::AllocateFixed() {
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(std::uint64_t));
  if (Status s = AllocateTo(fault_, kWord); !s) return s;
  if (Status s = AllocateTo(staged_, kGpuStagedBytes); !s) return s;
  if (Status s = AllocateTo(faults_, kTickets * kWord, MemoryKind::kShared); !s) return s;
  for (std::size_t i = 0; i < kTickets; ++i) {
    marks_[i].fault = reinterpret_cast<std::uint64_t*>(faults_->address()) + i;
  }
  table_changes_.reserve(static_cast<std::size_t>(kGpuStagedBytes) / sizeof(TableChange));
  return results_.Allocate(*driver_);
}

Result<std::unique_ptr<Buffer>> GpuBackend::Allocate(std::int64_t bytes, MemoryKind kind) {
  Result<std::unique_ptr<Buffer>> buffer = driver_->Allocate(bytes, kind);
  if (!buffer) return buffer;
  return ledger_.Add(*std::move(buffer));
}

Result<std::vector<const std::byte*>> GpuBackend::Import(
    std::span<const std::span<const std::byte>> pieces) {
  std::vector<const std::byte*> addresses;
  if (ReadsWeightsInPlace()) {
    if (Status s = driver_->ReadInPlace(pieces); !s) return Unexpected(s.error());
    for (const std::span<const std::byte> piece : pieces) addresses.push_back(piece.data());
    return addresses;
  }
  std::unique_ptr<Buffer> buffer;
  if (Status s = AllocateTo(buffer, GpuPieceBytes(pieces)); !s) return Unexpected(s.error());
  std::byte* next = buffer->address();
  for (const std::span<const std::byte> piece : pieces) {
    Upload(next, piece);
    addresses.push_back(next);
    next += RoundUp(std::int64_t{std::ssize(piece)}, kGpuPieceAlignment);
  }
  imported_.push_back(std::move(buffer));
  return addresses;
}

Status GpuBackend::Reserve(const StepLimits& limits) {
  if (Status s = batch_.Reserve(*driver_, limits.max_tokens); !s) return s;
  const GpuScratchSizes sizes = GpuScratchFor(limits);
  const std::pair<std::unique_ptr<Buffer>*, std::int64_t> buffers[] = {
      {&codes_, sizes.codes},       {&scales_, sizes.scales},      {&lane_rows_, sizes.lane_rows},
      {&embedded_, sizes.embedded}, {&hidden_, sizes.hidden},      {&scores_, sizes.scores},
      {&chains_, sizes.chains},     {&attention_, sizes.attention}};
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
  if (ledger_.Has(to.data())) return driver_->Download(to, from);  // the destination is pinned
  results_.Download(*driver_, to, from, n_marks_ + 1);
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
  driver_->Download(std::as_writable_bytes(std::span(point.fault, 1)), fault_->address());
  point.ticket = driver_->Mark();
  return {n_marks_};
}

Status GpuBackend::Wait(Ticket ticket) {
  const MarkedPoint& point = marks_[ticket.number % kTickets];
  if (Status s = driver_->Wait(point.ticket); !s) {
    results_.Drop();
    return s;
  }
  results_.Deliver(ticket.number);
  if (!kept_) return kept_;
  if (*point.fault != 0) {
    fault_word_.Set(static_cast<Fault>(*point.fault >> 32),
                    static_cast<std::int64_t>(*point.fault & 0xFFFFFFFFu));
    constexpr std::uint64_t kNoFault = 0;
    driver_->Upload(fault_->address(), std::as_bytes(std::span(&kNoFault, 1)));
  }
  return fault_word_.Take();
}

Status GpuBackend::BeginStep(const BatchView& batch, std::span<const TableChange> changes) {
  batch_.Begin(*driver_, batch);
  ForStageable(changes, [&](std::span<const TableChange> some) {
    KeepLastChanges(some, table_changes_);
    LaunchOnNumbers(
        GpuKernel::kChangeTables, std::ssize(table_changes_),
        gpu::ChangeTablesArguments{.changes = Stage(std::span<const TableChange>(table_changes_)),
                                   .n = std::ssize(table_changes_)});
  });
  return {};
}

void GpuBackend::Compute(const Operation& operation) {
  if (const auto* op = std::get_if<ChooseTokensOp>(&operation)) {
    return Download(std::as_writable_bytes(op->choices),
                    sampler_.Choose(*driver_, op->logits, op->rows));
  }
  Check(ComputeDense(operation) || ComputeAttention(operation) || ComputeExpert(operation),
        "an operation of a backend that does not have it");
}

}  // namespace fathom::kernels
