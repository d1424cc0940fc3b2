#include "tools/gpu_checks/probes/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/median.h"
#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kRegions = 4;  // of pinned memory: more together than a cache holds
constexpr std::uint64_t kDelayNanoseconds = 2'000'000;
// Waits for flags; the device gives up first, so that nothing hangs. In the emulator both
// are threads of a host that may be busy.
constexpr std::uint64_t kDeviceLimitNanoseconds = 500'000'000;
constexpr std::uint64_t kQuickDeviceLimitNanoseconds = 10'000'000'000;
constexpr std::chrono::seconds kHostLimit(2);
constexpr std::chrono::seconds kQuickHostLimit(20);

double SecondsSince(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}
double GbPerSecond(std::int64_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds * 1e-9;
}

class HostProbe {
 public:
  explicit HostProbe(const ProbeRun& run)
      : run_(run),
        device_(run.device()),
        region_bytes_(run.Size(kMib / 4, 64 * kMib)),
        host_limit_(run.Size(kQuickHostLimit, kHostLimit)) {}

  void Measure() {
    MeasureAllocation();
    MeasureReads();
    MeasureCopies();
    MeasureFlags();
    MeasureResults();
  }

 private:
  void MeasureAllocation() {
    const std::int64_t bytes = kRegions * region_bytes_;
    const auto began = Clock::now();
    pinned_ = static_cast<std::byte*>(device_.AllocateHost(bytes));
    const double seconds = SecondsSince(began);
    if (!device_.status()) return;
    std::memset(pinned_, kByte, static_cast<std::size_t>(bytes));
    memory_ = device_.Allocate(region_bytes_);
    run_.Print("pinned memory",
               {{"mib", static_cast<double>(bytes) / kMib},
                {"s_per_gib", seconds * 1024.0 * kMib / static_cast<double>(bytes)}});
  }

  // Each launch reads another region, so that none is in the device's cache.
  void MeasureReads() {
    const int blocks = run_.Size(2, 8 * device_.n_multiprocessors());
    auto* const sums = device_.AllocateArray<std::uint32_t>(std::int64_t{blocks} * kHostThreads);
    std::int64_t region = 0;
    for (const int width : {4, 8, 16}) {
      std::vector<double> seconds;
      for (int i = 0; i < 3 && device_.status(); ++i, region = (region + 1) % kRegions) {
        seconds.push_back(device_.Time([&] {
          device_.Launch(
              fmt::format("ReadHostBy{}", width), {.x = blocks, .threads = kHostThreads},
              HostReadArguments{
                  .from = pinned_ + region * region_bytes_, .bytes = region_bytes_, .sums = sums});
        }));
      }
      const auto all = device_.DownloadArray(sums, std::int64_t{blocks} * kHostThreads);
      if (!device_.status()) return;
      Line line = {{"bytes_per_load", width},
                   {"gb_s", GbPerSecond(region_bytes_, Median(seconds))}};
      AddMismatchOfSums(line, SumOfFilled(kByte, region_bytes_), all);
      run_.Print("reads of pinned memory by a kernel", line);
    }
  }

  void MeasureCopies() {
    const auto bytes = static_cast<std::size_t>(region_bytes_);
    const auto measure = [&](std::string_view name, const auto& copy) {
      std::vector<double> seconds;
      for (int i = 0; i < 3 && device_.status(); ++i) {
        seconds.push_back(device_.Time([&] { device_.Keep("a copy", copy()); }));
      }
      if (device_.status()) {
        run_.Print(name, {{"gb_s", GbPerSecond(region_bytes_, Median(seconds))}});
      }
    };
    const DriverApi& api = device_.api();
    measure("copies to the device",
            [&] { return api.upload(memory_, pinned_, bytes, device_.stream()); });
    measure("copies to the host",
            [&] { return api.download(pinned_, memory_, bytes, device_.stream()); });
  }

  // Asks and waits for the answer, from round `first` on. Returns the last answered round.
  std::uint32_t Exchange(std::uint32_t* asked, const std::uint32_t* answered, std::uint32_t first,
                         std::uint32_t last) const {
    for (std::uint32_t round = first; round <= last; ++round) {
      __atomic_store_n(asked, round, __ATOMIC_RELEASE);
      const auto began = Clock::now();
      while (__atomic_load_n(answered, __ATOMIC_ACQUIRE) != round) {
        if (Clock::now() - began > host_limit_) return round - 1;
      }
    }
    return last;
  }

  void MeasureFlags() {
    if (!device_.status()) return;
    const std::uint32_t n_rounds = run_.Size(20u, 1000u);
    // Flags of the two sides in cache lines of their own.
    auto* const asked = reinterpret_cast<std::uint32_t*>(pinned_);
    auto* const answered = reinterpret_cast<std::uint32_t*>(pinned_ + 256);
    *asked = 0;
    *answered = 0;
    device_.Launch(
        "AnswerFlags", {.threads = 32},
        FlagArguments{.asked = asked,
                      .answered = answered,
                      .n_rounds = n_rounds,
                      .limit = run_.Size(kQuickDeviceLimitNanoseconds, kDeviceLimitNanoseconds)});
    if (!device_.status()) return;
    int error = 0;
    // A driver may begin work only when somebody waits for it.
    std::thread waiter([&] { error = device_.WaitInThread(); });
    const std::uint32_t first = Exchange(asked, answered, 1, 1);  // the kernel has begun
    const auto began = Clock::now();
    const std::uint32_t last = first == 0 ? 0 : Exchange(asked, answered, 2, n_rounds);
    const double seconds = SecondsSince(began);
    waiter.join();
    device_.Keep("AnswerFlags", error);
    if (!device_.status()) return;
    Line line = {{"us", seconds * 1e6 / (n_rounds - 1)}};
    if (last != n_rounds) {
      line = {{"mismatch", fmt::format("round {}: expected an answer within {} s, found none",
                                       last + 1, host_limit_.count())}};
    }
    run_.Print("flag to the device and back", line);
  }

  // Times a copy to the host, alone and after a kernel.
  void MeasureResult(std::byte* to, std::int64_t bytes, bool is_pinned) {
    const auto copy = [&] {
      device_.Keep("a copy", device_.api().download(to, memory_, static_cast<std::size_t>(bytes),
                                                    device_.stream()));
    };
    std::vector<double> alone;
    for (int i = 0; i < run_.Size(2, 20) && device_.status(); ++i) {
      const auto began = Clock::now();
      copy();
      device_.Wait();
      alone.push_back(SecondsSince(began));
    }
    device_.Launch("Delay", {.threads = 32}, DelayArguments{.nanoseconds = kDelayNanoseconds});
    const auto began = Clock::now();
    copy();
    const double call = SecondsSince(began);
    device_.Wait();
    if (!device_.status()) return;
    run_.Print("result to the host",
               {{"bytes", bytes},
                {"pinned", is_pinned},
                {"us", Median(alone) * 1e6},
                {"call_us", call * 1e6},
                {"returned_before", call < static_cast<double>(kDelayNanoseconds) * 0.5e-9}});
  }

  void MeasureResults() {
    std::vector<std::byte> pageable(kMib);
    for (const std::int64_t bytes : {std::int64_t{4}, run_.Size(kMib / 16, kMib)}) {
      MeasureResult(pinned_, bytes, /*is_pinned=*/true);
      MeasureResult(pageable.data(), bytes, /*is_pinned=*/false);
    }
  }

  static constexpr unsigned char kByte = 0x35;

  const ProbeRun& run_;
  ProbeDevice& device_;
  const std::int64_t region_bytes_;
  const std::chrono::seconds host_limit_;
  std::byte* pinned_ = nullptr;  // kRegions regions
  void* memory_ = nullptr;       // of the device: a region
};

}  // namespace

Status MeasureHost(const ProbeRun& run) {
  HostProbe(run).Measure();
  return run.device().status();
}

}  // namespace fathom::probe
