#include "cli/backend_choice.h"

#include <optional>

#include "kernels/registry.h"

namespace fathom::cli {

Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run, Log& log) {
  std::optional<Isa> isa;
  if (!run.cpu_isa.empty()) {
    const Result<Isa> parsed = ParseIsa(run.cpu_isa);
    if (!parsed) return Unexpected(parsed.error());
    isa = *parsed;
  }
  Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(isa, run.n_threads);
  if (backend) {
    log.Info("backend {}, {} threads", (*backend)->Name(), run.n_threads);
  }
  return backend;
}

}  // namespace fathom::cli
