#include "kernels/profiled_backend.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "base/check.h"

namespace fathom::kernels {

class ProfiledBackend::HostProfiler final : public Profiler {
 public:
  explicit HostProfiler(ProfiledBackend& backend) : backend_(backend) {}
  Status Start() override {
    backend_.recorder_.Clear();
    backend_.is_on_ = true;
    backend_.free_since_ = Clock::now();
    return {};
  }
  void EnterPart(std::string_view part) override { backend_.recorder_.EnterPart(part); }
  Result<Profile> Stop() override {
    const std::chrono::duration<double> between = Clock::now() - backend_.free_since_;
    backend_.recorder_.AddBetween(between.count());
    backend_.is_on_ = false;
    if (Status ended = backend_.Synchronize(); !ended) return Unexpected(ended.error());
    return backend_.recorder_.Take();
  }

 private:
  ProfiledBackend& backend_;
};

Result<std::unique_ptr<Profiler>> Backend::MakeProfiler() {
  return MakeError(ErrorCode::kUnsupported,
                   "a profile: expected a backend made to be profiled, found {}", Name());
}

ProfiledBackend::ProfiledBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  Check(backend_->OnHost(), "a profile of calls, of a backend whose work ends later");
}

Result<std::unique_ptr<Profiler>> ProfiledBackend::MakeProfiler() {
  return std::make_unique<HostProfiler>(*this);
}

// Measures one operation, from construction to destruction, while a profile is taken.
class ProfiledBackend::Timer {
 public:
  // describe() returns the piece. The time since the piece before counts as between.
  template <class Describe>
  Timer(ProfiledBackend& backend, const Describe& describe) : backend_(backend) {
    if (!backend_.is_on_) return;
    const std::chrono::duration<double> between = Clock::now() - backend_.free_since_;
    backend_.recorder_.AddBetween(between.count());
    piece_ = describe();
    start_ = Clock::now();
  }
  ~Timer() {
    if (!piece_) return;
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    backend_.recorder_.Add(backend_.recorder_.part(), piece_->name, seconds.count(), piece_->cost);
    backend_.free_since_ = Clock::now();
  }

 private:
  ProfiledBackend& backend_;
  std::optional<OperationWork> piece_;  // nullopt: no profile is taken
  Clock::time_point start_;
};

namespace {

// Reads and writes so many bytes.
WorkCost CopyCost(std::size_t bytes) { return {.bytes = 2.0 * static_cast<double>(bytes)}; }

}  // namespace

void ProfiledBackend::Upload(void* to, std::span<const std::byte> from) {
  const Timer timer(*this, [&] { return OperationWork{"Upload", CopyCost(from.size_bytes())}; });
  backend_->Upload(to, from);
}

void ProfiledBackend::Download(std::span<std::byte> to, const void* from) {
  const Timer timer(*this, [&] { return OperationWork{"Download", CopyCost(to.size_bytes())}; });
  backend_->Download(to, from);
}

void ProfiledBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  const Timer timer(*this, [&] {
    std::size_t bytes = 0;
    for (const PieceCopy& piece : pieces) bytes += static_cast<std::size_t>(piece.bytes);
    return OperationWork{"CopyPieces", CopyCost(bytes)};
  });
  backend_->CopyPieces(pieces);
}

Status ProfiledBackend::BeginStep(const BatchView& batch, std::span<const TableChange> changes) {
  const Timer timer(*this, [&] { return OperationWork{"BeginStep"}; });
  return backend_->BeginStep(batch, changes);
}

void ProfiledBackend::Compute(const Operation& operation) {
  const Timer timer(*this, [&] { return Describe(operation); });
  backend_->Run(operation);
}

}  // namespace fathom::kernels
