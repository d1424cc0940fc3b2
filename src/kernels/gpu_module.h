// GpuModule: the GPUs of one vendor, as the program sees them. fathom_cuda.so and fathom_hip.so
// implement it (kernels/vendor), so that the program itself needs neither driver.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/gpu/driver.h"

namespace fathom {

// How a driver enqueues work. The results do not depend on it.
struct GpuDriverOptions {
  // Waits after each launch and each copy, so that an error names the kernel and its grid. Slow: to
  // find the kernel of a fault. Makes no graphs.
  bool waits_after_each = false;
  // Launches that come again become graphs of the driver. Missing: where the vendor's graphs are
  // known to be right.
  std::optional<bool> uses_graphs{};
};

struct FoundGpu {
  GpuDevice device;      // free_bytes is not known before the device is opened
  std::string obstacle;  // why the device cannot be used: expected and found; empty: it can
};

class GpuModule {
 public:
  virtual ~GpuModule() = default;

  // The devices in the driver's order, those that cannot be used included; at least one.
  virtual std::span<const FoundGpu> devices() const = 0;

  // Opens a device by its number: makes a context, loads the kernels. The module may end before the
  // driver does. Errors: no device of this number, its obstacle, or no memory for the kernels.
  virtual Result<std::unique_ptr<GpuDriver>> Open(int number, const GpuDriverOptions& options) = 0;
};

// Exported by the modules: opens the driver library and asks it for its devices. Returns nullptr
// and the reason if there is no driver, the driver is too old, or it has no device.
using MakeGpuModuleFunction = GpuModule* (*)(std::string* error);
inline constexpr const char* kMakeGpuModuleName = "fathom_make_gpu_module";

// The names of backends that run on GPUs: "cuda", "hip".
std::span<const std::string_view> GpuBackendNames();

// Opens the module of a backend of GpuBackendNames. Errors: those of OpenModule
// (base/module_file.h), and kUnavailable with the reason of the module.
Result<std::unique_ptr<GpuModule>> OpenGpuModule(std::string_view backend);

}  // namespace fathom
