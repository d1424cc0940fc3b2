// The exports of fathom_cuda.so and fathom_hip.so; compiled once for each, with GPU_VENDOR.
#include <string>
#include <utility>

#include "kernels/gpu_module.h"
#include "kernels/vendor/gpu_vendor.h"
#include "kernels/vendor/vendor_module.h"

extern "C" __attribute__((visibility("default"))) const char fathom_module_interface[] =
    FATHOM_MODULE_INTERFACE;

extern "C" __attribute__((visibility("default"))) fathom::kernels::GpuModule*
fathom_make_gpu_module(std::string* error) {
  fathom::Result<std::unique_ptr<fathom::kernels::GpuModule>> module =
      fathom::kernels::MakeVendorModule(fathom::kernels::GPU_VENDOR(),
                                        fathom::kernels::EmbeddedCodeObjects());
  if (module) return module->release();
  *error = std::move(module.error().message);
  return nullptr;
}
