// HopperApi: functions of NVIDIA's driver that only probes use, declared as driver_api.h does it.
#pragma once

#include <cstdint>

#include "base/namespaces.h"
#include "tests/hopper/tensor_map.h"

namespace fathom::probe {

// CUlaunchAttribute
struct LaunchAttribute {
  // CUlaunchAttributeID
  static constexpr unsigned kClusterDimension = 4;
  static constexpr unsigned kStartsEarly = 6;  // PROGRAMMATIC_STREAM_SERIALIZATION

  unsigned id = 0;
  unsigned padding = 0;
  unsigned value[16] = {};
};

// CUlaunchConfig
struct LaunchConfiguration {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned n_attributes = 0;
};

// Every function returns 0 or the number of an error.
struct HopperApi {
  const char* missing = nullptr;  // the first function that the library lacks; nullptr: none

  int (*launch)(const LaunchConfiguration* configuration, void* function, void** arguments,
                void** extra) = nullptr;
  int (*most_active_clusters)(int* clusters, void* function,
                              const LaunchConfiguration* configuration) = nullptr;
  int (*make_tensor_map)(TensorMap* map, int number_type, std::uint32_t rank, void* address,
                         const std::uint64_t* sizes, const std::uint64_t* strides,
                         const std::uint32_t* tile_sizes, const std::uint32_t* element_strides,
                         int interleaving, int swizzle, int promotion, int fill) = nullptr;

  // CU_TENSOR_MAP_DATA_TYPE_UINT16 and _SWIZZLE_128B
  static constexpr int kUint16 = 1;
  static constexpr int kSwizzle128 = 3;
};

// Finds the functions in a library that dlopen has returned.
HopperApi FindHopperApi(void* library);

}  // namespace fathom::probe
