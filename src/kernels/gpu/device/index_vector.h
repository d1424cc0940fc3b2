// Index vectors: Hadamard rotation and FP4 (docs/numerics.md 4), by the threads of a block.
#pragma once

#include "base/float_types.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/gpu.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

inline constexpr int kIndexGroupNumbers = 32;  // numbers that share a scale

// Packs the 128 numbers x[i], shared memory of Bf16, in the layout of kPackedIndexBytes. `v` is
// shared memory for 128 floats. All threads of the block, at least 64, call it after a barrier.
template <class X, class V>
GPU_DEVICE void PackIndexVector(const X& x, V& v, uint8_t* packed) {
  for (int i = ThreadX(); i < kIndexDim; i += BlockThreads()) {
    v[i] = ToFloat(x[i]);
  }
  SyncBlock();
  for (int stride = 1; stride < kIndexDim; stride *= 2) {
    for (int pair = ThreadX(); pair < kIndexDim / 2; pair += BlockThreads()) {
      const int i = pair / stride * 2 * stride + pair % stride;
      const float a = v[i];
      const float b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
    SyncBlock();
  }
  // 64 threads, whole waves: each thread has two numbers, 16 threads have a group.
  if (ThreadX() >= kIndexDim / 2) return;
  const Bf16 low = ToBf16(v[2 * ThreadX()] * 0.08838834764831845f);
  const Bf16 high = ToBf16(v[2 * ThreadX() + 1] * 0.08838834764831845f);
  const int32_t a = Magnitude(low);
  const int32_t b = Magnitude(high);
  const int32_t largest = LargestOfGroup(a > b ? a : b);
  const float scale =
      PowerOfTwoScale(ToFloat(Bf16{static_cast<uint16_t>(largest)}), kE2m1Floor, kE2m1Maximum);
  const float inverse = Div(1.0f, scale);
  const int low_code = FloatToE2m1(ToFloat(low) * inverse);
  const int high_code = FloatToE2m1(ToFloat(high) * inverse);
  packed[ThreadX()] = static_cast<uint8_t>(low_code | high_code << 4);
  if (GroupLane() == 0) {
    packed[kIndexDim / 2 + ThreadX() / kGroupThreads] = ExponentByte(scale);
  }
}

}  // namespace fathom::kernels::gpu
