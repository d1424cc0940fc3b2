// GpuModule: the program's view of the GPUs of one vendor. fathom_cuda.so and fathom_hip.so
// implement it (kernels/vendor), so that the program itself needs neither driver.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/gpu/driver.h"

namespace fathom::kernels {

// Options of a driver for enqueuing work. The results do not depend on them.
struct GpuDriverOptions {
  // Waits after each launch and each copy, so that an error names the kernel and its grid. Slow:
  // only for finding the kernel of a fault. Makes no graphs.
  bool waits_after_each = false;
  // Turns repeated launches into graphs of the driver. Missing: uses graphs if the vendor's graphs
  // are known to be right.
  std::optional<bool> uses_graphs{};
};

struct FoundGpu {
  GpuDevice device;      // free_bytes is not known before the device is opened
  std::string obstacle;  // why the device cannot be used: expected and found; empty: it can be used
};

class GpuModule {
 public:
  virtual ~GpuModule() = default;

  // Returns the devices in the driver's order, including unusable ones; at least one.
  virtual std::span<const FoundGpu> devices() const = 0;

  // Opens a device by its number: makes a context, loads the kernels. The module may be destroyed
  // before the driver. Errors: no device of this number, its obstacle, or no memory for the
  // kernels.
  virtual Result<std::unique_ptr<GpuDriver>> Open(int number, const GpuDriverOptions& options) = 0;
};

// Exported by the modules: opens the driver library and lists its devices. Returns nullptr and the
// reason if there is no driver, the driver is too old, or it has no device.
using MakeGpuModuleFunction = GpuModule* (*)(std::string* error);
inline constexpr const char* kMakeGpuModuleName = "fathom_make_gpu_module";

// Returns the names of backends that run on GPUs: "cuda", "hip".
std::span<const std::string_view> GpuBackendNames();

// Opens the module of a backend of GpuBackendNames. Errors: as OpenModule (base/module_file.h), and
// kUnavailable with the module's reason.
Result<std::unique_ptr<GpuModule>> OpenGpuModule(std::string_view backend);

}  // namespace fathom::kernels
