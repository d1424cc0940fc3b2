#include "tools/gpu_checks/probes/rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {
namespace {

constexpr int kMostGroups = 8;  // of 128 threads, on a multiprocessor
constexpr int kGroupThreads128 = 128;

// A kernel and what a group of 128 threads computes in a round.
struct Rate {
  std::string name;
  std::string kernel;
  bool widens = false;
  double operations = 0.0;  // multiplications and additions
  std::int64_t shared_bytes = 0;
};

std::vector<Rate> AllRates() {
  std::vector<Rate> rates;
  for (const bool widens : {false, true}) {
    const char* const suffix = widens ? "Widening" : "";
    for (const auto& [type, title] : {std::pair{"F16", "f16"}, {"Bf16", "bf16"}}) {
      for (const int columns : {8, 64}) {
        rates.push_back({.name = fmt::format("mma.sync {}, N = {}", title, columns),
                         .kernel = fmt::format("MmaRate{}N{}{}", type, columns, suffix),
                         .widens = widens,
                         .operations = 4.0 * kWarpProducts * 2 * 16 * 8 * 16});
      }
    }
    for (const auto& [place, title] : {std::pair{"Shared", "SS"}, {"Registers", "RS"}}) {
      for (const int columns : {8, 64, 128, 256}) {
        rates.push_back({.name = fmt::format("wgmma {} f16, N = {}", title, columns),
                         .kernel = fmt::format("WgmmaRate{}N{}{}", place, columns, suffix),
                         .widens = widens,
                         .operations = kWarpgroupProducts * 2.0 * 64 * columns * 16,
                         .shared_bytes = RateSharedBytes(columns)});
      }
    }
  }
  return rates;
}

// Returns operations per second with so many groups of threads on a multiprocessor.
double MeasureRate(const ProbeRun& run, const Rate& rate, int groups, float* sums) {
  ProbeDevice& device = run.device();
  const int blocks = run.Size(1, groups * device.n_multiprocessors());
  const auto seconds = [&](std::int64_t rounds) {
    return device.Time([&] {
      device.Launch(rate.kernel,
                    {.x = blocks, .threads = kGroupThreads128, .shared_bytes = rate.shared_bytes},
                    RateArguments{.rounds = rounds, .sums = sums});
    });
  };
  // Long enough that launching does not count; the first run warms up.
  std::int64_t rounds = run.Size(1, 256);
  double taken = seconds(rounds);
  while (!run.is_quick() && device.status() && taken < 2e-3 && rounds < 1 << 22) {
    rounds *= 2;
    taken = seconds(rounds);
  }
  taken = std::min(taken, seconds(rounds));
  return rate.operations * static_cast<double>(rounds) * blocks / taken;
}

}  // namespace

Status MeasureRates(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  auto* const sums =
      device.AllocateArray<float>(kMostGroups * kGroupThreads128 * device.n_multiprocessors());
  for (const Rate& rate : AllRates()) {
    if (run.Skips(rate.name, rate.kernel)) continue;
    double best = 0.0;
    int best_groups = 0;
    for (int groups = 1; groups <= run.Size(1, kMostGroups); groups *= 2) {
      const double found = MeasureRate(run, rate, groups, sums);
      if (found > best) {
        best = found;
        best_groups = groups;
      }
    }
    if (!device.status()) return device.status();
    run.Print(rate.name, {{"widening", rate.widens},
                          {"tflop_s", best * 1e-12},
                          {"threads_per_multiprocessor", best_groups * kGroupThreads128}});
  }
  return {};
}

}  // namespace fathom::probe
