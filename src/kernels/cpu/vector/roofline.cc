// The two loops that measure the limits of the machine: kernels/roofline.h runs and times them.
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kStep = 4 * kCacheLine;  // bytes that are read of each stream in turn

template <int kStreams>
int32_t ReadStreams(const uint8_t* data, int64_t bytes, const cpu::ReadPattern& pattern) {
  const int64_t distance = pattern.prefetch_distance;
  constexpr int kLoads = static_cast<int>(kStep / static_cast<int64_t>(sizeof(I32)));
  // Several sums per stream, so that no addition waits for the one before.
  I32 sums[4] = {SetInt(0), SetInt(0), SetInt(0), SetInt(0)};
  const int64_t part = bytes / kStreams;
  for (int64_t i = 0; i < part; i += kStep) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const uint8_t* p = data + stream * part + i;
      if (distance > 0) {
        for (int64_t line = 0; line < kStep; line += kCacheLine) {
          pattern.second_level ? __builtin_prefetch(p + distance + line, 0, 2)
                               : __builtin_prefetch(p + distance + line);
        }
      }
      for (int j = 0; j < kLoads; ++j) {
        sums[j % 4] = Add(sums[j % 4], LoadInt(p + j * static_cast<int64_t>(sizeof(I32))));
      }
    }
  }
  int32_t lanes[kLanes];
  StoreInt(lanes, Add(Add(sums[0], sums[1]), Add(sums[2], sums[3])));
  uint32_t total = 0;
  for (const int32_t lane : lanes) {
    total += static_cast<uint32_t>(lane);
  }
  return static_cast<int32_t>(total);
}

// Runs chains of step(chain), each of `work` multiply-adds, until `count` are done.
template <class Step>
float RunChains(int64_t count, int64_t work, const Step& step) {
  constexpr int kChains = 12;  // more than latency times the number of units
  F32 chains[kChains];
  for (int i = 0; i < kChains; ++i) {
    chains[i] = Set(static_cast<float>(i));
  }
  for (int64_t i = 0; i < count; i += kChains * work) {
    for (F32& chain : chains) {
      chain = step(chain);
    }
  }
  F32 sum = chains[0];
  for (int i = 1; i < kChains; ++i) {
    sum = sum + chains[i];
  }
  return MaxLanes(sum);
}

}  // namespace

int32_t ReadMemory(const void* data, int64_t bytes, const cpu::ReadPattern& pattern) {
  const auto* p = static_cast<const uint8_t*>(data);
  return pattern.streams == 1 ? ReadStreams<1>(p, bytes, pattern)
                              : ReadStreams<4>(p, bytes, pattern);
}

float MultiplyAdds(int64_t count) {
  const F32 factor = Set(0.5f);
  const F32 term = Set(1.0f);
  return RunChains(count, kLanes, [&](F32 chain) { return MulAdd(chain, factor, term); });
}

float OperandMultiplyAdds(int64_t count) {
  float zeros[kLanes] = {};
  Operand a;
  Operand b;
  LoadTo(zeros, a);
  LoadTo(zeros, b);
  Keep(a);  // the compiler must not know the numbers
  Keep(b);
  return RunChains(count, kLanes * kOperandColumns, [&](F32 chain) { return MulAdd(a, b, chain); });
}

}  // namespace fathom::kernels::KERNEL_ISA
