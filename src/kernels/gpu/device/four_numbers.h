// Four numbers that are loaded and stored together.
#pragma once

namespace fathom::kernels::gpu {

struct alignas(16) FourNumbers {
  float at[4];
};

}  // namespace fathom::kernels::gpu
