#include "cli/backend_choice.h"

#include "kernels/registry.h"

namespace fathom::cli {

Result<Isa> ChooseIsa(const RunOptions& run) {
  return run.cpu_isa.empty() ? Result<Isa>(AvailableIsas().back()) : ParseIsa(run.cpu_isa);
}

Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run, Log& log) {
  const Result<Isa> isa = ChooseIsa(run);
  if (!isa) return Unexpected(isa.error());
  Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(*isa, run.n_threads);
  if (backend) {
    log.Info("backend {}, {} threads", (*backend)->Name(), run.n_threads);
  }
  return backend;
}

}  // namespace fathom::cli
