// Functions of NVIDIA's driver for Hopper's units, on the emulator.
#include <cstring>

#include "tests/emulator/tensor_tile.h"
#include "tests/testing/fake_gpu_driver.h"
#include "tools/gpu_checks/probes/hopper_api.h"

using namespace fathom;         // NOLINT: the functions below are C's
using namespace fathom::probe;  // NOLINT

extern "C" {

testing::FakeGpuDriver* fake_gpu_driver();
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** arguments, void** extra);

// Launches run one after the other; the emulator knows which ones may start early.
int cuLaunchKernelEx(const LaunchConfiguration* configuration, void* function, void** arguments,
                     void** extra) {
  const auto& [grid_x, grid_y, grid_z] = configuration->grid;
  const auto& [block_x, block_y, block_z] = configuration->block;
  for (unsigned i = 0; i < configuration->n_attributes; ++i) {
    const LaunchAttribute& attribute = configuration->attributes[i];
    fake_gpu_driver()->next_starts_early =
        attribute.id == LaunchAttribute::kStartsEarly && attribute.value[0] != 0;
  }
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                        configuration->shared_bytes, configuration->stream, arguments, extra);
}

// Each block has a multiprocessor of its own.
int cuOccupancyMaxActiveClusters(int* clusters, void* function,
                                 const LaunchConfiguration* configuration) {
  constexpr int kMultiprocessors = 132;
  constexpr int kPortable = 8;
  const auto size = static_cast<int>(configuration->attributes[0].value[0]);
  const std::string& kernel = *static_cast<const std::string*>(function);
  if (size > kPortable && !fake_gpu_driver()->large_clusters_allowed[kernel]) {
    return testing::FakeGpuError::kInvalidClusterSize;
  }
  *clusters = kMultiprocessors / size;
  return 0;
}

int cuTensorMapEncodeTiled(TensorMap* map, int number_type, std::uint32_t rank, void* address,
                           const std::uint64_t* sizes, const std::uint64_t* strides,
                           const std::uint32_t* tile_sizes, const std::uint32_t*, int, int swizzle,
                           int, int) {
  const bool is_known = number_type == HopperApi::kUint16 && rank == 2 &&
                        (swizzle == 0 || swizzle == HopperApi::kSwizzle128);
  if (!is_known || strides[0] % 16 != 0) return testing::FakeGpuError::kInvalidValue;
  *map = emulator::ToTensorMap({.data = static_cast<const std::byte*>(address),
                                .rows = static_cast<std::int64_t>(sizes[1]),
                                .columns = static_cast<std::int64_t>(sizes[0]),
                                .row_bytes = static_cast<std::int64_t>(strides[0]),
                                .element_bytes = 2,
                                .tile_rows = tile_sizes[1],
                                .tile_columns = tile_sizes[0],
                                .swizzled = swizzle != 0 ? 1 : 0});
  return 0;
}

}  // extern "C"
