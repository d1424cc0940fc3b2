// NVIDIA's driver: libcuda.so.1, which every installation of the driver has.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/vendor/gpu_vendor.h"

namespace fathom::kernels {
namespace {

// CUdevice_attribute
constexpr int kCudaWarpSize = 10;
constexpr int kCudaMultiprocessorCount = 16;
constexpr int kCudaIntegrated = 18;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kMaxSharedMemoryPerBlockOptin = 97;
// CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP
constexpr unsigned kPortableMapped = 1 | 2;
// CU_MEMHOSTREGISTER_PORTABLE, _DEVICEMAP and _READ_ONLY
constexpr unsigned kRegisteredReadOnly = 0x1 | 0x2 | 0x8;

// A name like sm_90a: the kind, the compute capability times ten, and whether the code runs on that
// capability alone.
struct CudaArchitecture {
  bool is_ptx = false;
  int capability = 0;
  bool is_specific = false;
};

CudaArchitecture ParseArchitecture(std::string_view name) {
  CudaArchitecture parsed = {.is_ptx = name.starts_with("compute_"),
                             .is_specific = name.ends_with('a')};
  for (const char c : name) {
    if (c >= '0' && c <= '9') parsed.capability = 10 * parsed.capability + (c - '0');
  }
  return parsed;
}

// Code for a capability runs on later capabilities of its generation, PTX on all later ones.
bool Runs(const CudaArchitecture& code, int capability) {
  if (code.is_specific) return code.capability == capability;
  if (code.capability > capability) return false;
  return code.is_ptx || code.capability / 10 == capability / 10;
}

Result<std::string> ChooseCudaArchitecture(const DriverApi& api, int device,
                                           std::span<const std::string_view> architectures) {
  int major = 0;
  int minor = 0;
  int error = api.device_attribute(&major, kComputeCapabilityMajor, device);
  if (error == 0) error = api.device_attribute(&minor, kComputeCapabilityMinor, device);
  if (error != 0) {
    return MakeError(ErrorCode::kUnavailable, "compute capability: {}", ErrorText(api, error));
  }
  // The list has PTX after the code that needs no compilation.
  const auto found = std::ranges::find_if(architectures, [&](std::string_view name) {
    return Runs(ParseArchitecture(name), 10 * major + minor);
  });
  if (found != architectures.end()) return std::string(*found);
  return MakeError(ErrorCode::kUnsupported,
                   "expected an architecture of {}, found compute capability {}.{}",
                   fmt::join(architectures, ", "), major, minor);
}

}  // namespace

GpuVendor CudaVendor() {
  return {.name = GpuVendorName::kCuda,
          .title = "CUDA",
          .libraries = {"libcuda.so.1"},
          .least_driver = "CUDA 13.0 (driver 580) or later",
          .least_major = 13,
          .version_units = {.per_major = 1000, .per_minor = 10},
          .n_multiprocessors = kCudaMultiprocessorCount,
          .wave_size = kCudaWarpSize,
          .shared_bytes = kMaxSharedMemoryPerBlockOptin,
          .is_integrated = kCudaIntegrated,
          .host_flags = kPortableMapped,
          .read_only_host_flags = kPortableMapped,
          .register_flags = kRegisteredReadOnly,
          .has_right_graphs = true,
          .choose_architecture = ChooseCudaArchitecture};
}

}  // namespace fathom::kernels
