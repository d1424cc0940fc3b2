#include "kernels/gpu/profiled_driver.h"

#include <utility>

#include "kernels/gpu/kernel_bytes.h"

namespace fathom::kernels {
namespace {

constexpr std::size_t kMaxPieces = 2048;  // pieces whose marks are stored
constexpr std::string_view kUploads = "(copies to the device)";
constexpr std::string_view kDownloads = "(copies from the device)";

}  // namespace

Status ProfiledDriver::StartProfile() {
  Result<std::unique_ptr<GpuTimer>> timer =
      driver_->MakeTimer(2 * static_cast<int>(kMaxPieces), TimedWork::kSingleLaunches);
  if (!timer) return Unexpected(timer.error());
  timer_ = *std::move(timer);
  pieces_.clear();
  recorder_.Clear();
  has_waited_ = true;
  status_ = {};
  return driver_->Synchronize();
}

Result<Profile> ProfiledDriver::StopProfile() {
  Collect();
  timer_.reset();
  if (Status ended = driver_->Synchronize(); !ended) return Unexpected(ended.error());
  if (!status_) return Unexpected(status_.error());
  return recorder_.Take();
}

template <class Work>
void ProfiledDriver::Measure(Piece piece, const Work& work) {
  if (pieces_.size() == kMaxPieces) Collect();
  piece.follows = !std::exchange(has_waited_, false);
  piece.part = recorder_.part();
  const int mark = 2 * static_cast<int>(pieces_.size());
  timer_->Mark(mark);
  work();
  timer_->Mark(mark + 1);
  pieces_.push_back(piece);
}

void ProfiledDriver::Collect() {
  for (std::size_t i = 0; i < pieces_.size() && status_; ++i) {
    const Piece& piece = pieces_[i];
    const int mark = 2 * static_cast<int>(i);
    const Result<double> seconds = timer_->SecondsBetween(mark, mark + 1);
    const Result<double> before = piece.follows ? timer_->SecondsBetween(mark - 1, mark) : 0.0;
    for (const Result<double>* const one : {&seconds, &before}) {
      if (!*one && status_) status_ = Unexpected(one->error());
    }
    if (!status_) return;
    if (piece.follows) recorder_.AddBetween(*before);
    recorder_.Add(piece.part, piece.name, *seconds, {.bytes = piece.bytes});
  }
  pieces_.clear();
  has_waited_ = true;
}

void ProfiledDriver::Upload(void* to, std::span<const std::byte> from) {
  if (!is_on()) return driver_->Upload(to, from);
  Measure({kUploads, static_cast<double>(from.size())}, [&] { driver_->Upload(to, from); });
}

void ProfiledDriver::Download(std::span<std::byte> to, const void* from) {
  if (!is_on()) return driver_->Download(to, from);
  Measure({kDownloads, static_cast<double>(to.size())}, [&] { driver_->Download(to, from); });
}

void ProfiledDriver::Launch(GpuKernel kernel, const GpuGrid& grid,
                            std::span<const std::byte> arguments) {
  if (!is_on() || grid.x == 0 || grid.y == 0) return driver_->Launch(kernel, grid, arguments);
  const KernelBytes bytes = BytesOfKernel(*driver_, kernel, grid, arguments.data());
  has_waited_ = has_waited_ || bytes.has_waited;
  Measure({kGpuKernelNames[static_cast<std::size_t>(kernel)], bytes.bytes},
          [&] { driver_->Launch(kernel, grid, arguments); });
}

}  // namespace fathom::kernels
