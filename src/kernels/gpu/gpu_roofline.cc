#include "kernels/gpu/gpu_roofline.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/integer_math.h"
#include "kernels/gpu/device/roofline.h"
#include "kernels/gpu/limits.h"

namespace fathom::kernels {
namespace {

// Blocks per multiprocessor: the number that reads fastest differs between devices.
constexpr std::int64_t kBlocksPerUnit[] = {2, 4, 8, 16};
constexpr std::int64_t kMostBlocksPerUnit = 16;
constexpr int kRounds = 3;
constexpr std::int64_t kLeastChain = 64;  // multiply-adds, doubled until they take:
constexpr double kLeastSeconds = 1e-3;
constexpr int kLaunches = 256;  // launches of an empty kernel
// The driver makes a graph at the third use, which takes time; the fourth use launches it.
constexpr int kUsesBeforeGraph = 3;
constexpr auto kVectorBytes = static_cast<std::int64_t>(sizeof(gpu::MemoryVector));

class GpuRooflineProbe final : public RooflineProbe {
 public:
  explicit GpuRooflineProbe(GpuDriver& driver)
      : driver_(driver), units_(driver.device().n_multiprocessors) {}

  // Called once, before the other functions.
  Status Allocate(std::int64_t bytes);

  int n_threads() const override { return 1; }
  std::int64_t page_bytes() const override { return 0; }

 private:
  Result<Roofline> MeasureOnce(std::vector<std::vector<double>>& reads) override;
  // Returns the seconds that the kernel takes for n_launches launches.
  template <class Arguments>
  Result<double> Time(GpuKernel kernel, std::int64_t blocks, const Arguments& arguments,
                      int n_launches = 1);
  Result<double> MeasureRead(std::int64_t blocks);
  Result<double> MeasureCopy(std::int64_t blocks);
  Result<double> MeasureMultiplyAdds();
  // Returns the microseconds of one of kLaunches launches that were made n_uses times before.
  Result<double> MeasureLaunch(int n_uses);
  gpu::MemoryVector* memory() const {
    return reinterpret_cast<gpu::MemoryVector*>(memory_->address());
  }
  template <class T>
  T* sums() const {
    return reinterpret_cast<T*>(sums_->address());
  }

  GpuDriver& driver_;
  const std::int64_t units_;
  std::int64_t n_vectors_ = 0;  // an even number
  std::int64_t chain_ = kLeastChain;
  std::int64_t n_launch_measurements_ = 0;
  std::unique_ptr<Buffer> memory_;
  std::unique_ptr<Buffer> sums_;  // a word per thread
  std::unique_ptr<GpuTimer> timer_;
};

Status GpuRooflineProbe::Allocate(std::int64_t bytes) {
  n_vectors_ = RoundUp(DivideUp(bytes, kVectorBytes), 2);
  const auto allocate = [&](std::unique_ptr<Buffer>& buffer, std::int64_t size) -> Status {
    Result<std::unique_ptr<Buffer>> allocated = driver_.Allocate(size, MemoryKind::kDevice);
    if (!allocated) return Unexpected(allocated.error());
    buffer = *std::move(allocated);
    return {};
  };
  if (Status s = allocate(memory_, n_vectors_ * kVectorBytes); !s) return s;
  const std::int64_t n_threads = units_ * kMostBlocksPerUnit * kMaxBlockThreads;
  if (Status s = allocate(sums_, n_threads * 4); !s) return s;
  Result<std::unique_ptr<GpuTimer>> timer = driver_.MakeTimer(2, TimedWork::kLong);
  if (!timer) return Unexpected(timer.error());
  timer_ = *std::move(timer);
  return {};
}

template <class Arguments>
Result<double> GpuRooflineProbe::Time(GpuKernel kernel, std::int64_t blocks,
                                      const Arguments& arguments, int n_launches) {
  timer_->Mark(0);
  for (int i = 0; i < n_launches; ++i) {
    driver_.Launch(kernel, {.x = blocks, .threads = kMaxBlockThreads},
                   std::as_bytes(std::span(&arguments, 1)));
  }
  timer_->Mark(1);
  return timer_->SecondsBetween(0, 1);
}

Result<double> GpuRooflineProbe::MeasureRead(std::int64_t blocks) {
  const Result<double> seconds =
      Time(GpuKernel::kReadMemory, blocks,
           gpu::ReadMemoryArguments{memory(), n_vectors_, sums<std::uint32_t>()});
  if (!seconds) return seconds;
  return 1e-9 * static_cast<double>(n_vectors_ * kVectorBytes) / *seconds;
}

// Copies one half to the other: as many bytes as a read of both halves, half of them written.
Result<double> GpuRooflineProbe::MeasureCopy(std::int64_t blocks) {
  const std::int64_t half = n_vectors_ / 2;
  const Result<double> seconds = Time(GpuKernel::kCopyMemory, blocks,
                                      gpu::CopyMemoryArguments{memory(), memory() + half, half});
  if (!seconds) return seconds;
  return 1e-9 * static_cast<double>(n_vectors_ * kVectorBytes) / *seconds;
}

Result<double> GpuRooflineProbe::MeasureMultiplyAdds() {
  const std::int64_t blocks = units_ * kMostBlocksPerUnit;
  while (true) {
    const Result<double> seconds =
        Time(GpuKernel::kMultiplyAdds, blocks, gpu::MultiplyAddsArguments{chain_, sums<float>()});
    if (!seconds) return seconds;
    if (*seconds >= kLeastSeconds) {
      const std::int64_t operations =
          2 * blocks * kMaxBlockThreads * gpu::kMultiplyAddChains * chain_;
      return 1e-9 * static_cast<double>(operations) / *seconds;
    }
    chain_ *= 2;
  }
}

// Launches that differ from all earlier ones are enqueued one by one; repeated launches become a
// graph.
Result<double> GpuRooflineProbe::MeasureLaunch(int n_uses) {
  const gpu::MultiplyAddsArguments arguments = {0, sums<float>() + n_launch_measurements_++};
  Result<double> seconds = 0.0;
  for (int i = 0; i <= n_uses && seconds; ++i) {
    seconds = Time(GpuKernel::kMultiplyAdds, 1, arguments, kLaunches);
  }
  if (!seconds) return seconds;
  return 1e6 * *seconds / kLaunches;
}

Result<Roofline> GpuRooflineProbe::MeasureOnce(std::vector<std::vector<double>>& reads) {
  reads.resize(std::size(kBlocksPerUnit));
  Roofline best;
  const auto keep_best = [](double& value, const Result<double>& measured) {
    if (measured) value = std::max(value, *measured);
    return measured.has_value();
  };
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kBlocksPerUnit); ++i) {
      const std::int64_t blocks = units_ * kBlocksPerUnit[i];
      const Result<double> read = MeasureRead(blocks);
      if (!keep_best(best.read_gb_s, read)) return Unexpected(read.error());
      reads[i].push_back(*read);
      const Result<double> copy = MeasureCopy(blocks);
      if (!keep_best(best.copy_gb_s, copy)) return Unexpected(copy.error());
    }
    const Result<double> fma = MeasureMultiplyAdds();
    if (!keep_best(best.fma_gflop_s, fma)) return Unexpected(fma.error());
    const auto keep_least = [&](double& value, const Result<double>& measured) {
      if (measured) value = round == 0 ? *measured : std::min(value, *measured);
      return measured.has_value();
    };
    const Result<double> launch = MeasureLaunch(0);
    if (!keep_least(best.launch_us, launch)) return Unexpected(launch.error());
    if (!driver_.device().uses_graphs) continue;
    const Result<double> in_graph = MeasureLaunch(kUsesBeforeGraph);
    if (!keep_least(best.graph_launch_us, in_graph)) return Unexpected(in_graph.error());
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<RooflineProbe>> MakeGpuRooflineProbe(GpuDriver& driver,
                                                            const RooflineOptions& options) {
  auto probe = std::make_unique<GpuRooflineProbe>(driver);
  if (Status s = probe->Allocate(options.buffer_bytes); !s) {
    return MakeError(s.error().code, "memory to measure the bandwidth with: {}", s.error().message);
  }
  return probe;
}

}  // namespace fathom::kernels
