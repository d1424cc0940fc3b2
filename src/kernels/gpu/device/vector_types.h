// Numbers that a thread loads and stores at once, at multiples of their size.
#pragma once

#include <stdint.h>

#include "base/namespaces.h"

namespace fathom::kernels::gpu {

struct alignas(8) TwoWords {
  uint32_t words[2];
};
struct alignas(16) FourWords {
  uint32_t words[4];
};
struct alignas(16) FourFloats {
  float numbers[4];
};

}  // namespace fathom::kernels::gpu
