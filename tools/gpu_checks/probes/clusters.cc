#include "tools/gpu_checks/probes/clusters.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {
namespace {

// One block on a multiprocessor: more than half of its shared memory.
constexpr std::int64_t kWholeShared = std::int64_t{120} << 10;
constexpr std::int32_t kReadBytes = 64 << 10;

class ClusterProbe {
 public:
  ClusterProbe(const ProbeRun& run, int size)
      : run_(run),
        size_(size),
        barrier_(fmt::format("ClusterBarrier{}", size)),
        read_(fmt::format("ClusterRead{}", size)) {}

  void Measure() {
    ProbeDevice& device = run_.device();
    const std::string name = fmt::format("clusters of {}", size_);
    if (run_.Skips(name, barrier_)) return;
    for (const std::string& kernel : {barrier_, read_}) {
      const int error = size_ > 8 ? device.AllowLargeClusters(kernel) : 0;
      if (error != 0) {
        run_.Print(name, {{"skipped", ErrorText(device.api(), error)}});
        return;
      }
    }
    std::string why = "the device has room for none";
    const int n_active = device.CountActiveClusters(barrier_, Grid(1), size_, why);
    if (!device.status()) return;
    if (n_active <= 0) {
      run_.Print(name, {{"skipped", why}});
      return;
    }
    run_.Print(fmt::format("active {}", name), {{"size", size_}, {"clusters", n_active}});
    for (const int n : {1, run_.Size(1, n_active)}) {
      MeasureBarrier(n);
      MeasureRead(n);
    }
  }

 private:
  int threads() const { return run_.Size(64, kClusterThreads); }
  GpuGrid Grid(int n_clusters) const {
    return {.x = std::int64_t{n_clusters} * size_,
            .threads = threads(),
            .shared_bytes = run_.Size(std::int64_t{16384}, kWholeShared)};
  }

  // Returns the seconds of a kernel by the device's clock, the least of several runs.
  double Run(const std::string& kernel, const GpuGrid& grid, const ClusterArguments& arguments) {
    ProbeDevice& device = run_.device();
    double best = 0.0;
    for (int i = 0; i < run_.Size(1, 5) && device.status(); ++i) {
      device.Launch(kernel, grid, arguments);
      const auto times = device.DownloadArray(arguments.times, grid.x);
      const double seconds = SecondsOfBlocks(times);
      best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  }

  void MeasureBarrier(int n_clusters) {
    ProbeDevice& device = run_.device();
    const GpuGrid grid = Grid(n_clusters);
    const std::int64_t rounds = run_.Size(4, 10000);
    const double seconds =
        Run(barrier_, grid, {.rounds = rounds, .times = device.AllocateArray<BlockTimes>(grid.x)});
    if (!device.status()) return;
    run_.Print("cluster barrier", {{"size", size_},
                                   {"clusters", n_clusters},
                                   {"us", seconds * 1e6 / static_cast<double>(rounds)}});
  }

  void MeasureRead(int n_clusters) {
    ProbeDevice& device = run_.device();
    const GpuGrid grid = Grid(n_clusters);
    const std::int64_t n_threads = grid.x * grid.threads;
    const ClusterArguments arguments = {
        .rounds = run_.Size(size_ / 4, 32 * size_),  // every other block equally often
        .bytes = run_.Size(8192, kReadBytes),
        .sums = device.AllocateArray<std::uint32_t>(n_threads),
        .times = device.AllocateArray<BlockTimes>(grid.x)};
    const double seconds = Run(read_, grid, arguments);
    const auto sums = device.DownloadArray(arguments.sums, n_threads);
    if (!device.status()) return;
    const double bytes =
        static_cast<double>(grid.x) * arguments.bytes * static_cast<double>(arguments.rounds);
    Line line = {{"size", size_},
                 {"clusters", n_clusters},
                 {"us", seconds * 1e6},
                 {"tb_s", bytes / seconds * 1e-12}};
    AddMismatchOfSums(line, SumOfReads(n_clusters, arguments), sums);
    run_.Print("reads of other blocks' shared memory", line);
  }

  // Each block reads the numbers of its neighbours in turn.
  std::uint32_t SumOfReads(int n_clusters, const ClusterArguments& arguments) const {
    std::uint32_t sum = 0;
    for (int rank = 0; rank < size_; ++rank) {
      for (std::int64_t round = 0; round < arguments.rounds; ++round) {
        sum += static_cast<std::uint32_t>((rank + 1 + round) % size_);
      }
    }
    return sum * static_cast<std::uint32_t>(arguments.bytes / 4 * n_clusters);
  }

  const ProbeRun& run_;
  const int size_;
  const std::string barrier_;
  const std::string read_;
};

}  // namespace

Status MeasureClusters(const ProbeRun& run) {
  for (const int size : {8, 16}) {
    ClusterProbe(run, size).Measure();
    if (!run.device().status()) return run.device().status();
  }
  return {};
}

}  // namespace fathom::probe
