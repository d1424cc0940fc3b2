// Weights into shared memory, by bulk copies.
#include "tests/hopper/hopper.h"
#include "tools/gpu_checks/probes/streaming.h"

namespace fathom::probe {

// A block takes every GridX()-th chunk through a ring of stages, each with two barriers.
struct Ring {
  SharedWindow window;
  GPU_DEVICE uint32_t Full(int stage) const { return window.Address(16 * stage); }
  GPU_DEVICE uint32_t Empty(int stage) const { return window.Address(16 * stage + 8); }
  GPU_DEVICE static constexpr int Chunk(int stage) { return 1024 + stage * kBulkChunk; }
};

GPU_DEVICE void CopyChunks(const StreamArguments& a, const Ring& ring, int n_chunks) {
  for (int i = 0; i < n_chunks; ++i) {
    const int stage = i % kBulkStages;
    const int64_t chunk = BlockX() + i * GridX();
    WaitBarrier(ring.Empty(stage), 1 - i / kBulkStages % 2);
    ArriveAndExpect(ring.Full(stage), kBulkChunk);
    CopyBytes(ring.window.Address(Ring::Chunk(stage)), a.from + chunk * (kBulkChunk / 16),
              kBulkChunk, ring.Full(stage));
  }
}

GPU_DEVICE uint32_t SumChunks(const Ring& ring, int n_chunks) {
  uint32_t sum = 0;
  for (int i = 0; i < n_chunks; ++i) {
    const int stage = i % kBulkStages;
    WaitBarrier(ring.Full(stage), i / kBulkStages % 2);
    GPU_UNROLL
    for (int j = 0; j < kBulkChunk / 16 / kBulkConsumers; ++j) {
      const auto vector =
          ring.window.Load<Vector16>(Ring::Chunk(stage) + 16 * (j * kBulkConsumers + ThreadX()));
      sum += vector.words[0] + vector.words[1] + vector.words[2] + vector.words[3];
    }
    Arrive(ring.Empty(stage));
  }
  return sum;
}

HOPPER_KERNEL(StreamBulk, kBulkThreads, 1, StreamArguments a) {
  HOPPER_SHARED(window);
  const uint64_t began = Nanoseconds();
  const Ring ring = {window};
  const int64_t all_chunks = a.n / (kBulkChunk / 16);
  const int n_chunks = static_cast<int>((all_chunks - BlockX() + GridX() - 1) / GridX());
  if (ThreadX() == 0) {
    for (int stage = 0; stage < kBulkStages; ++stage) {
      InitBarrier(ring.Full(stage), 1);
      InitBarrier(ring.Empty(stage), kBulkConsumers);
    }
    FenceBarrierInit();
  }
  SyncBlock();
  uint32_t sum = 0;
  if (ThreadX() < kBulkConsumers) {
    sum = SumChunks(ring, n_chunks);
  } else if (ThreadX() == kBulkConsumers) {
    CopyChunks(a, ring, n_chunks);
  }
  a.sums[BlockX() * BlockThreads() + ThreadX()] = sum;
  EndOfBlock(a.times, began);
}

}  // namespace fathom::probe
