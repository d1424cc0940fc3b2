#include "kernels/registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace fathom {

Result<std::unique_ptr<Backend>> MakeCpuBackend(std::optional<Isa> isa, int n_threads,
                                                std::span<const int> processors) {
  if (n_threads < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "threads: expected at least 1, found {}",
                     n_threads);
  }
  const std::vector<Isa> available = AvailableIsas();
  const Isa chosen = isa.value_or(available.back());
  if (std::find(available.begin(), available.end(), chosen) == available.end()) {
    std::string names;
    for (const Isa one : available) {
      names += names.empty() ? "" : ", ";
      names += Name(one);
    }
    return MakeError(ErrorCode::kUnsupported,
                     "this machine does not have the instruction set {}; it has: {}", Name(chosen),
                     names);
  }
  if (chosen == Isa::kScalar) {
    return std::make_unique<ReferenceBackend>();
  }
  return std::make_unique<CpuBackend>(chosen, n_threads, processors);
}

}  // namespace fathom
