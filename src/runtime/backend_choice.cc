#include "runtime/backend_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/processors.h"
#include "kernels/registry.h"

namespace fathom {

Result<Isa> ChooseIsa(const RunOptions& run) {
  return run.cpu_isa.empty() ? Result<Isa>(AvailableIsas().back()) : ParseIsa(run.cpu_isa);
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
  Result<std::unique_ptr<Backend>> backend =
      MakeBackend(run.backend, {.n_threads = run.n_threads,
                                .processors = {processors.begin(), processors.end()},
                                .cpu_isa = *isa});
  if (backend) {
    events.Info("backend {}, {} threads{}", (*backend)->Name(), run.n_threads,
                processors.empty() ? std::string()
                                   : fmt::format(" on processors {}", fmt::join(processors, ",")));
  }
  return backend;
}

}  // namespace fathom
