// AMD's HIP runtime: libamdhip64.so of ROCm 6 and 7.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/vendor/gpu_vendor.h"

namespace fathom::kernels {
namespace {

// hipDeviceAttribute_t
constexpr int kHipIntegrated = 16;
constexpr int kHipMultiprocessorCount = 63;
constexpr int kMaxSharedMemoryPerBlock = 74;
constexpr int kHipWarpSize = 87;
// hipHostMallocPortable, _Mapped and _Coherent: kernels and host see each other's writes.
constexpr unsigned kPortableMappedCoherent = 0x1 | 0x2 | 0x40000000;
// hipHostMallocPortable, _Mapped and _NonCoherent: the device may cache what it reads. Every load
// of coherent memory reads again over the bus.
constexpr unsigned kPortableMappedNonCoherent = 0x1 | 0x2 | 0x80000000;
// hipHostRegisterPortable and _Mapped
constexpr unsigned kRegistered = 0x1 | 0x2;
// The threads of a launch (blocks in x times threads per block) are counted in 32 bits.
constexpr std::int64_t kMostGridThreads = (std::int64_t{1} << 32) - 1;
// hipDeviceProp_tR0600, which has the architecture's name. The function's name fixes the layout of
// the 1,472 bytes that ROCm 6 fills; a later version may fill more.
constexpr std::size_t kPropertiesBytes = 4096;
constexpr std::size_t kArchitectureAt = 1160;
constexpr std::size_t kArchitectureBytes = 256;

// Returns "gfx942" for "gfx942:sramecc+:xnack-": the code objects run with any setting.
std::string_view WithoutSettings(std::string_view architecture) {
  return architecture.substr(0, architecture.find(':'));
}

Result<std::string> ChooseHipArchitecture(const DriverApi& api, int device,
                                          std::span<const std::string_view> architectures) {
  alignas(8) std::array<char, kPropertiesBytes> properties = {};
  if (const int error = api.device_properties(properties.data(), device); error != 0) {
    return MakeError(ErrorCode::kUnavailable, "properties: {}", ErrorText(api, error));
  }
  std::string_view name(properties.data() + kArchitectureAt, kArchitectureBytes);
  name = WithoutSettings(name.substr(0, name.find('\0')));
  if (std::ranges::find(architectures, name) != architectures.end()) return std::string(name);
  return MakeError(ErrorCode::kUnsupported, "expected an architecture of {}, found {}",
                   fmt::join(architectures, ", "), name);
}

}  // namespace

GpuVendor HipVendor() {
  return {.name = GpuVendorName::kHip,
          .title = "HIP",
          .libraries = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"},
          .least_driver = "ROCm 6.0 or later",
          .least_major = 6,
          .version_units = {.per_major = 10000000, .per_minor = 100000},
          .n_multiprocessors = kHipMultiprocessorCount,
          .wave_size = kHipWarpSize,
          .shared_bytes = kMaxSharedMemoryPerBlock,
          .is_integrated = kHipIntegrated,
          .host_flags = kPortableMappedCoherent,
          .read_only_host_flags = kPortableMappedNonCoherent,
          .register_flags = kRegistered,
          .most_grid_threads = kMostGridThreads,
          // ROCm 7.2.0 to 7.2.3 compute wrong results in graphs (ROCm/clr issue 279).
          .has_right_graphs = false,
          .choose_architecture = ChooseHipArchitecture};
}

}  // namespace fathom::kernels
