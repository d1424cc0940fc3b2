#include "tools/gpu_checks/probes/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/median.h"
#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {
namespace {

constexpr int kLaunchThreads = 256;

// How launches of a chain reach the device.
struct Way {
  std::string_view name;
  bool is_graph = false;
  bool starts_early = false;
};
constexpr Way kWays[] = {{"stream", false, false},
                         {"graph", true, false},
                         {"stream, programmatic dependent launches", false, true},
                         {"graph, programmatic dependent launches", true, true}};

// A chain of launches with `blocks` blocks each.
class Chain {
 public:
  Chain(const ProbeRun& run, const Way& way, int blocks)
      : run_(run), way_(way), blocks_(blocks), n_(run.Size(8, 256)) {
    times_ = run.device().AllocateArray<BlockTimes>(static_cast<std::int64_t>(n_) * blocks);
  }

  // Returns the microseconds per launch of kernels without work.
  double MeasureEmpty() const {
    const auto enqueue = [&] {
      for (int i = 0; i < n_; ++i) Enqueue("EmptyKernel", "EmptyEarlyKernel", EmptyArguments{});
    };
    return BestOf(enqueue) * 1e6 / n_;
  }

  // Adds what the clock of the device says of kernels that note when their blocks begin and end.
  void MeasureStamped(Line& line) const {
    const auto enqueue = [&] {
      for (int i = 0; i < n_; ++i) {
        Enqueue("StampKernel", "StampEarlyKernel", StampArguments{.times = times_ + i * blocks_});
      }
    };
    BestOf(enqueue);
    const std::vector<BlockTimes> times =
        run_.device().DownloadArray(times_, static_cast<std::int64_t>(n_) * blocks_);
    std::vector<double> steps;
    std::vector<double> gaps;
    BlockTimes last = OfLaunch(times, 0);
    for (int i = 1; i < n_; ++i) {
      const BlockTimes next = OfLaunch(times, i);
      steps.push_back(Microseconds(last.began, next.began));
      gaps.push_back(Microseconds(last.ended, next.began));
      last = next;
    }
    line["stamped_us"] = Mean(steps);
    line["gap_us"] = Mean(gaps);
  }

 private:
  template <class Arguments>
  void Enqueue(const char* kernel, const char* early_kernel, const Arguments& arguments) const {
    run_.device().Launch(way_.starts_early ? early_kernel : kernel,
                         {.x = blocks_, .threads = kLaunchThreads}, arguments,
                         {.starts_early = way_.starts_early});
  }

  // Returns the least seconds of several runs of the work.
  template <class Work>
  double BestOf(const Work& enqueue) const {
    ProbeDevice& device = run_.device();
    void* const graph = way_.is_graph ? device.MakeGraph(enqueue) : nullptr;
    const auto work = [&] { way_.is_graph ? device.LaunchGraph(graph) : enqueue(); };
    double best = device.Time(work);
    for (int i = 0; i < run_.Size(1, 10); ++i) best = std::min(best, device.Time(work));
    return best;
  }

  BlockTimes OfLaunch(const std::vector<BlockTimes>& times, int launch) const {
    const auto first = times.begin() + static_cast<std::ptrdiff_t>(launch) * blocks_;
    const auto last = first + blocks_;
    return {std::ranges::min_element(first, last, {}, &BlockTimes::began)->began,
            std::ranges::max_element(first, last, {}, &BlockTimes::ended)->ended};
  }
  static double Microseconds(std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(static_cast<std::int64_t>(to - from)) * 1e-3;
  }

  const ProbeRun& run_;
  const Way way_;
  const int blocks_;
  const int n_;
  BlockTimes* times_ = nullptr;
};

// Times a launch that nothing runs before or after, by the host's clock and by the device's.
void MeasureIsolated(const ProbeRun& run, bool is_graph) {
  ProbeDevice& device = run.device();
  auto* const times = device.AllocateArray<BlockTimes>(1);
  const auto enqueue = [&] {
    device.Launch("StampKernel", {.threads = kLaunchThreads}, StampArguments{.times = times});
  };
  void* const graph = is_graph ? device.MakeGraph(enqueue) : nullptr;
  std::vector<double> host;
  std::vector<double> kernel;
  for (int i = 0; i < run.Size(4, 100); ++i) {
    const auto began = std::chrono::steady_clock::now();
    is_graph ? device.LaunchGraph(graph) : enqueue();
    device.Wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    host.push_back(taken.count() * 1e6);
    kernel.push_back(SecondsOfBlocks(device.DownloadArray(times, 1)) * 1e6);
  }
  if (!device.status()) return;
  run.Print(is_graph ? "isolated, graph" : "isolated, stream",
            {{"host_us", Median(host)}, {"kernel_us", Mean(kernel)}});
}

void MeasureTimerStep(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  auto* const least = device.AllocateArray<std::uint64_t>(1);
  device.Launch("TimerStep", {.threads = 32},
                TimerStepArguments{.n_reads = run.Size(1000, 100000), .least = least});
  const std::uint64_t step = device.DownloadArray(least, 1).front();
  if (device.status()) run.Print("timer of the device", {{"step_ns", step}});
}

}  // namespace

Status MeasureLaunches(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  MeasureTimerStep(run);
  for (const Way& way : kWays) {
    if (way.starts_early && run.Skips(way.name, "EmptyEarlyKernel")) continue;
    for (const int blocks : {1, run.Size(2, device.n_multiprocessors())}) {
      const Chain chain(run, way, blocks);
      Line line = {{"blocks", blocks}, {"us", chain.MeasureEmpty()}};
      chain.MeasureStamped(line);
      if (!device.status()) return device.status();
      run.Print(way.name, line);
    }
  }
  MeasureIsolated(run, /*is_graph=*/false);
  MeasureIsolated(run, /*is_graph=*/true);
  return device.status();
}

}  // namespace fathom::probe
