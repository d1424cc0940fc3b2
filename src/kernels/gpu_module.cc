#include "kernels/gpu_module.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/module_file.h"

namespace fathom::kernels {
namespace {

constexpr std::string_view kGpuBackendNames[] = {"cuda", "hip"};

constexpr ModuleFile kGpuModuleFiles[] = {{.name = "fathom_cuda.so",
                                           .function = kMakeGpuModuleName,
                                           .interface = FATHOM_MODULE_INTERFACE,
                                           .provides = "CUDA",
                                           .needs = "nvcc 13 or later"},
                                          {.name = "fathom_hip.so",
                                           .function = kMakeGpuModuleName,
                                           .interface = FATHOM_MODULE_INTERFACE,
                                           .provides = "HIP",
                                           .needs = "clang-19 and lld-19"}};

}  // namespace

std::span<const std::string_view> GpuBackendNames() { return kGpuBackendNames; }

Result<std::unique_ptr<GpuModule>> OpenGpuModule(std::string_view backend) {
  const auto* const name = std::ranges::find(kGpuBackendNames, backend);
  Check(name != std::end(kGpuBackendNames), "the name of a GPU backend");
  const Result<void*> function = OpenModule(kGpuModuleFiles[name - std::begin(kGpuBackendNames)]);
  if (!function) return Unexpected(function.error());
  std::string error;
  std::unique_ptr<GpuModule> module(reinterpret_cast<MakeGpuModuleFunction>(*function)(&error));
  if (!module) return MakeError(ErrorCode::kUnavailable, "{}", error);
  return module;
}

}  // namespace fathom::kernels
