// The limits of the hardware: memory and multiply-adds (kernels/gpu/gpu_roofline.cc).
#include "kernels/gpu/device/roofline.h"

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

constexpr int kInFlight = 4;  // vectors that a thread reads before it uses one

GPU_DEVICE int64_t ThreadOfGrid() { return BlockX() * BlockThreads() + ThreadX(); }
GPU_DEVICE int64_t ThreadsOfGrid() { return GridX() * BlockThreads(); }

// Calls use(index, vector) for every vector of this thread.
template <class Use>
GPU_DEVICE void ForEachVector(const MemoryVector* from, int64_t n, const Use& use) {
  const int64_t step = ThreadsOfGrid();
  int64_t i = ThreadOfGrid();
  for (; i + (kInFlight - 1) * step < n; i += kInFlight * step) {
    MemoryVector vectors[kInFlight];
    GPU_UNROLL
    for (int j = 0; j < kInFlight; ++j) vectors[j] = from[i + j * step];
    GPU_UNROLL
    for (int j = 0; j < kInFlight; ++j) use(i + j * step, vectors[j]);
  }
  for (; i < n; i += step) use(i, from[i]);
}

}  // namespace

GPU_KERNEL(ReadMemory, ReadMemoryArguments a) {
  uint32_t sum = 0;
  ForEachVector(a.from, a.n, [&](int64_t, const MemoryVector& vector) {
    sum += vector.words[0] + vector.words[1] + vector.words[2] + vector.words[3];
  });
  a.sums[ThreadOfGrid()] = sum;
}

GPU_KERNEL(CopyMemory, CopyMemoryArguments a) {
  ForEachVector(a.from, a.n, [&](int64_t i, const MemoryVector& vector) { a.to[i] = vector; });
}

GPU_KERNEL(MultiplyAdds, MultiplyAddsArguments a) {
  float chains[kMultiplyAddChains];
  GPU_UNROLL
  for (int j = 0; j < kMultiplyAddChains; ++j) chains[j] = static_cast<float>(j);
  for (int64_t i = 0; i < a.count; ++i) {
    GPU_UNROLL
    for (int j = 0; j < kMultiplyAddChains; ++j) chains[j] = Fma(chains[j], 0.5f, 1.0f);
  }
  float sum = 0.0f;
  GPU_UNROLL
  for (int j = 0; j < kMultiplyAddChains; ++j) sum = sum + chains[j];
  a.sums[ThreadOfGrid()] = sum;
}

}  // namespace fathom::kernels::gpu
