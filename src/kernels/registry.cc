#include "kernels/registry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace fathom {
namespace {

struct NamedBackend {
  std::string_view name;
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
};

constexpr NamedBackend kBackends[] = {
    {"cpu",
     [](const BackendOptions& options) {
       return MakeCpuBackend(options.cpu_isa, options.n_threads, options.processors);
     }},
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeBackend(std::string_view name, const BackendOptions& options) {
  std::string names;
  for (const NamedBackend& backend : kBackends) {
    if (backend.name == name) return backend.make(options);
    names += names.empty() ? "" : ", ";
    names += backend.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "backend \"{}\" is not known; expected one of: {}",
                   name, names);
}

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
  if (chosen == Isa::kScalar) return std::make_unique<ReferenceBackend>();
  return std::make_unique<CpuBackend>(chosen, n_threads, processors);
}

}  // namespace fathom
