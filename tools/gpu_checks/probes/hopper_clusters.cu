// Clusters: meetings, and reads of the shared memory of other blocks.
#include "tests/hopper/hopper.h"
#include "tools/gpu_checks/probes/clusters.h"

namespace fathom::probe {

GPU_DEVICE void MeetOften(const ClusterArguments& a) {
  SyncCluster();
  const uint64_t began = Nanoseconds();
  for (int64_t round = 0; round < a.rounds; ++round) {
    SyncCluster();
  }
  EndOfBlock(a.times, began);
}

template <int kCluster>
GPU_DEVICE void ReadOthers(const ClusterArguments& a, const SharedWindow& window) {
  constexpr int kInFlight = kClusterVectorsInFlight;
  const int step = 16 * BlockThreads();
  const int rank = ClusterRank();
  const auto word = static_cast<uint32_t>(rank);
  for (int i = 16 * ThreadX(); i < a.bytes; i += step) {
    window.Store(i, Vector16{{word, word, word, word}});
  }
  SyncCluster();
  const uint64_t began = Nanoseconds();
  uint32_t sum = 0;
  for (int64_t round = 0; round < a.rounds; ++round) {
    const int other = (rank + 1 + static_cast<int>(round)) % kCluster;
    for (int i = 16 * ThreadX(); i < a.bytes; i += kInFlight * step) {
      Vector16 vectors[kInFlight];
      GPU_UNROLL
      for (int j = 0; j < kInFlight; ++j) {
        vectors[j] = window.LoadFrom<Vector16>(other, i + j * step);
      }
      GPU_UNROLL
      for (int j = 0; j < 4 * kInFlight; ++j) {
        sum += vectors[j / 4].words[j % 4];
      }
    }
  }
  a.sums[BlockX() * BlockThreads() + ThreadX()] = sum;
  EndOfBlock(a.times, began);
  SyncCluster();  // shared memory stays until all have read it
}

HOPPER_KERNEL(ClusterBarrier8, kClusterThreads, 8, ClusterArguments a) { MeetOften(a); }
HOPPER_KERNEL(ClusterBarrier16, kClusterThreads, 16, ClusterArguments a) { MeetOften(a); }
HOPPER_KERNEL(ClusterRead8, kClusterThreads, 8, ClusterArguments a) {
  HOPPER_SHARED(window);
  ReadOthers<8>(a, window);
}
HOPPER_KERNEL(ClusterRead16, kClusterThreads, 16, ClusterArguments a) {
  HOPPER_SHARED(window);
  ReadOthers<16>(a, window);
}

}  // namespace fathom::probe
