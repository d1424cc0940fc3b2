// TensorMap: a matrix in memory of the device, and the tiles that copies read of it (hopper.h).
//
// Passed to kernels in their argument struct. The driver of the device makes the content
// (cuTensorMapEncodeTiled); the emulator has its own (tests/emulator/tensor_tile.h).
#pragma once

#include "base/namespaces.h"

namespace fathom::kernels {

// CUDA 13 declares CUtensorMap with this alignment.
struct alignas(128) TensorMap {
  unsigned char content[128];
};

}  // namespace fathom::kernels
