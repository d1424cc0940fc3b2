#include "runtime/backend_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/processors.h"
#include "kernels/cpu/isa.h"
#include "kernels/gpu_module.h"
#include "kernels/registry.h"

namespace fathom::runtime {

Result<Isa> ChooseIsa(const RunOptions& run) {
  return run.cpu_isa.empty() ? Result<Isa>(PreferredIsa()) : ParseIsa(run.cpu_isa);
}

Result<std::vector<int>> ChooseProcessors(const RunOptions& run) {
  const std::vector<int> allowed = AllowedProcessors();
  for (const int processor : run.processors) {
    if (!std::binary_search(allowed.begin(), allowed.end(), processor)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--cpus: expected processors that this process may use ({}), found {}",
                       fmt::join(allowed, ","), processor);
    }
  }
  if (!run.processors.empty() || !run.pin) return run.processors;
  std::vector<int> cores = OnePerCore(allowed);
  const auto n_threads = static_cast<std::size_t>(run.n_threads);
  if (n_threads > cores.size()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--pin: expected at most {} threads, the physical cores that this process may "
                     "use, found {}",
                     cores.size(), n_threads);
  }
  cores.resize(n_threads);
  return cores;
}

Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run,
                                               std::span<const int> processors,
                                               const RuntimeEvents& events) {
  const Result<Isa> isa = ChooseIsa(run);
  if (!isa) return Unexpected(isa.error());
  const std::span<const std::string_view> gpus = GpuBackendNames();
  if (run.device && std::ranges::find(gpus, run.backend) == gpus.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--device: expected --backend {}, found --backend {}", fmt::join(gpus, " or "),
                     run.backend);
  }
  Result<std::unique_ptr<Backend>> backend =
      MakeBackend(run.backend, {.n_threads = run.n_threads,
                                .processors = {processors.begin(), processors.end()},
                                .cpu_isa = *isa,
                                .can_profile = run.can_profile,
                                .device = run.device.value_or(0),
                                .gpu_driver = run.gpu_driver});
  if (!backend) return backend;
  if (run.host_experts != HostExpertChoice::kAuto && !(*backend)->DeviceMemory()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--experts: expected --backend {}, or --experts auto, found --backend {}",
                     fmt::join(gpus, " or "), run.backend);
  }
  const Result<ExecutionPaths> paths = ChoosePaths(run.paths, **backend);
  if (!paths) return Unexpected(paths.error());
  events.Info("backend {}{}", (*backend)->Name(),
              processors.empty() ? std::string()
                                 : fmt::format(" on processors {}", fmt::join(processors, ",")));
  if (!(*backend)->OnHost()) {
    events.Info("products {}, attention {}, moe {}", paths->products, paths->attention, paths->moe);
  }
  return backend;
}

}  // namespace fathom::runtime
