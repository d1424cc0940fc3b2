#include "bench/roofline.h"

#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {

int64_t ReadBytes(const void* data, int64_t bytes) {
  constexpr int64_t kStep = 4 * sizeof(I32);
  const auto* p = static_cast<const uint8_t*>(data);
  I32 sums[4] = {SetInt(0), SetInt(0), SetInt(0), SetInt(0)};
  for (int64_t i = 0; i < bytes; i += kStep) {
    __builtin_prefetch(p + i + 4096);
    for (int j = 0; j < 4; ++j) {
      sums[j] = Add(sums[j], LoadInt(p + i + j * static_cast<int64_t>(sizeof(I32))));
    }
  }
  int32_t lanes[kLanes];
  StoreInt(lanes, Add(Add(sums[0], sums[1]), Add(sums[2], sums[3])));
  int64_t total = 0;
  for (const int32_t lane : lanes) {
    total += lane;
  }
  return total;
}

float MultiplyAdds(int64_t count) {
  constexpr int kChains = 12;  // more than latency times units
  F32 chains[kChains];
  for (int i = 0; i < kChains; ++i) {
    chains[i] = Set(static_cast<float>(i));
  }
  const F32 factor = Set(0.5f);
  const F32 term = Set(1.0f);
  for (int64_t i = 0; i < count; i += kChains * kLanes) {
    for (F32& chain : chains) {
      chain = MulAdd(chain, factor, term);
    }
  }
  F32 sum = chains[0];
  for (int i = 1; i < kChains; ++i) {
    sum = sum + chains[i];
  }
  return MaxLanes(sum);
}

}  // namespace fathom::KERNEL_ISA
