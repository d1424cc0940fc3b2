#include "tools/gpu_checks/probes/prefetch.h"

#include <chrono>
#include <thread>

#include "tools/gpu_checks/probes/streaming.h"
#include "tools/gpu_checks/probes/weights.h"

namespace fathom::probe {
namespace {

constexpr int kPrefetchBlocks = 8;
// More than a prefetch of 48 MB takes from slow memory.
constexpr std::chrono::milliseconds kArrival(1);

// Happens to the weights before they are read.
enum class Before { kNothing, kPrefetched, kRead };

class PrefetchProbe {
 public:
  PrefetchProbe(const ProbeRun& run, Weights& weights, std::int64_t bytes)
      : run_(run),
        device_(run.device()),
        weights_(weights),
        bytes_(bytes),
        blocks_(run.Size(2, 2 * device_.n_multiprocessors())),
        sums_(device_.AllocateArray<std::uint32_t>(blocks_ * kStreamThreads)),
        times_(device_.AllocateArray<BlockTimes>(blocks_)) {}

  // Returns the seconds of a read, the mean of several.
  double Measure(Before before) {
    std::vector<double> seconds;
    for (int i = 0; i < run_.Size(1, 7); ++i) {
      weights_.ForgetInCache();
      if (before == Before::kPrefetched) {
        device_.Launch("PrefetchWeights", {.x = kPrefetchBlocks, .threads = 32},
                       PrefetchArguments{.from = weights_.Part(0, bytes_), .bytes = bytes_});
      } else if (before == Before::kRead) {
        Read();
      }
      device_.Wait();
      std::this_thread::sleep_for(kArrival);
      Read();
      const auto times = device_.DownloadArray(times_, blocks_);
      if (!device_.status()) return 0.0;
      seconds.push_back(SecondsOfBlocks(times));
    }
    return Mean(seconds);
  }

 private:
  void Read() {
    device_.Launch(
        "StreamRegisters", {.x = blocks_, .threads = kStreamThreads},
        StreamArguments{
            .from = weights_.Part(0, bytes_), .n = bytes_ / 16, .sums = sums_, .times = times_});
  }

  const ProbeRun& run_;
  ProbeDevice& device_;
  Weights& weights_;
  const std::int64_t bytes_;
  const int blocks_;
  std::uint32_t* const sums_;
  BlockTimes* const times_;
};

}  // namespace

Status MeasurePrefetch(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  constexpr std::int64_t kMebibyte = 1 << 20;
  if (run.Skips("prefetch", "PrefetchWeights")) return {};
  Weights weights(run);
  for (const std::int64_t size : {8, 16, 32, 48}) {
    const std::int64_t bytes = size * run.Size(kMebibyte / 128, kMebibyte);
    PrefetchProbe probe(run, weights, bytes);
    const double cold = probe.Measure(Before::kNothing);
    const double prefetched = probe.Measure(Before::kPrefetched);
    const double read = probe.Measure(Before::kRead);
    if (!device.status()) return device.status();
    const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds * 1e-12; };
    run.Print("prefetch", {{"mib", static_cast<double>(bytes) / kMebibyte},
                           {"cold_us", cold * 1e6},
                           {"cold_tb_s", rate(cold)},
                           {"prefetched_us", prefetched * 1e6},
                           {"prefetched_tb_s", rate(prefetched)},
                           {"read_before_us", read * 1e6},
                           {"read_before_tb_s", rate(read)}});
  }
  return {};
}

}  // namespace fathom::probe
