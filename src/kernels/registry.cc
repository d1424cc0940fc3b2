#include "kernels/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/profiled_backend.h"
#include "kernels/reference/reference_backend.h"

namespace fathom::kernels {
namespace {

Result<std::unique_ptr<Backend>> MakeGpuBackend(std::string_view name,
                                                const BackendOptions& options) {
  const Result<std::unique_ptr<GpuModule>> module = OpenGpuModule(name);
  if (!module) return Unexpected(module.error());
  Result<std::unique_ptr<GpuDriver>> driver = (*module)->Open(options.device, options.gpu_driver);
  if (!driver) return Unexpected(driver.error());
  return GpuBackend::Make(*std::move(driver), [options] {
    return MakeCpuBackend(options.cpu_isa, options.n_threads, options.processors);
  });
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeBackend(std::string_view name, const BackendOptions& options) {
  if (std::ranges::find(kBackendNames, name) == std::end(kBackendNames)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "backend \"{}\" is not known; expected one of: {}", name,
                     fmt::join(kBackendNames, ", "));
  }
  if (std::ranges::find(GpuBackendNames(), name) != GpuBackendNames().end()) {
    return MakeGpuBackend(name, options);
  }
  Result<std::unique_ptr<Backend>> backend =
      MakeCpuBackend(options.cpu_isa, options.n_threads, options.processors);
  if (!backend || !options.can_profile) return backend;
  return std::make_unique<ProfiledBackend>(*std::move(backend));
}

Result<std::unique_ptr<Backend>> MakeCpuBackend(std::optional<Isa> isa, int n_threads,
                                                std::span<const int> processors) {
  if (n_threads < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "threads: expected at least 1, found {}",
                     n_threads);
  }
  const std::vector<Isa> available = AvailableIsas();
  const Isa chosen = isa ? *isa : PreferredIsa();
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

}  // namespace fathom::kernels
