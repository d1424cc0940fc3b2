// Compiled for every GPU: the conversions of both kinds of FP8.
#include "fp8_kinds.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

struct Fp8KindsArguments {
  const float* x = nullptr;
  float* out = nullptr;  // twice as many: the number in FN, and that of the FN code in FNUZ
};

GPU_KERNEL(Fp8Kinds, Fp8KindsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  const uint8_t code = FloatToFp8<E4m3Fn>(a.x[i]);
  a.out[2 * i] = Fp8ToFloat<E4m3Fn>(code) + Fp8ToFloat<E4m3Fnuz>(FloatToFp8<E4m3Fnuz>(a.x[i]));
  a.out[2 * i + 1] = Fp8ToFloat<E4m3Fnuz>(FnToHalfFnuz(code));
}

}  // namespace fathom::kernels::gpu
