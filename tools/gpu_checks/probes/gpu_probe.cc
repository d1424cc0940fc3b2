// Measures what a device does beside Fathom's kernels (docs/gpu_probes.md): one JSON object per
// line for every figure. Exit code 1: a probe could not run, and why; a mismatch is a result.
//
//   gpu_probe NAME... --device N [--quick]
//   gpu_probe --list
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "base/parse_text.h"
#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {

// The compiled kernels (CMakeLists.txt).
std::span<const std::byte* const> ProbeFatbins();

namespace {

struct Probe {
  std::string_view name;
  Status (*run)(const ProbeRun&);
};
constexpr Probe kProbes[] = {{"wrappers", CompareWrappers}, {"rates", MeasureRates},
                             {"launches", MeasureLaunches}, {"streaming", MeasureStreaming},
                             {"clusters", MeasureClusters}, {"prefetch", MeasurePrefetch},
                             {"host", MeasureHost}};

struct Options {
  std::vector<const Probe*> probes;
  int device = 0;
  bool is_quick = false;
  bool lists = false;
};

Result<Options> Parse(const std::vector<std::string_view>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--list") {
      options.lists = true;
    } else if (words[i] == "--quick") {
      options.is_quick = true;
    } else if (words[i] == "--device" && i + 1 < words.size()) {
      const auto number = ParseNumber<int>(words[++i]);
      if (!number) {
        return MakeError(ErrorCode::kInvalidArgument, "--device: expected a number, found '{}'",
                         words[i]);
      }
      options.device = *number;
    } else {
      const auto* const found = std::ranges::find(kProbes, words[i], &Probe::name);
      if (found == std::end(kProbes)) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "expected --device N, --quick, --list or a name of --list, found '{}'",
                         words[i]);
      }
      options.probes.push_back(found);
    }
  }
  if (options.probes.empty() && !options.lists) {
    return MakeError(ErrorCode::kInvalidArgument, "expected a name of --list, found none");
  }
  return options;
}

Status Run(const std::vector<std::string_view>& words) {
  const Result<Options> options = Parse(words);
  if (!options) return Unexpected(options.error());
  if (options->lists) {
    for (const Probe& probe : kProbes) fmt::print("{}\n", probe.name);
    return {};
  }
  ProbeDevice device;
  if (Status s = device.Open(options->device, ProbeFatbins()); !s) return s;
  for (const Probe* const probe : options->probes) {
    const Status ran = probe->run(ProbeRun(probe->name, device, options->is_quick));
    device.FreeMemory();
    if (!ran) return MakeError(ran.error().code, "{}: {}", probe->name, ran.error().message);
  }
  return {};
}

}  // namespace
}  // namespace fathom::probe

int main(int argc, char** argv) {
  const fathom::Status ran = fathom::probe::Run({argv + 1, argv + argc});
  if (ran) return 0;
  fmt::print(stderr, "gpu_probe: {}\n", ran.error().message);
  return 1;
}
