// Arguments of the kernels of clusters (hopper_clusters.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

// Each block of a cluster meets the others `rounds` times (ClusterBarrier), or reads `bytes` of
// another one's shared memory `rounds` times (ClusterRead), whose words are the number of that
// block in its cluster.
struct ClusterArguments {
  int64_t rounds = 0;
  int32_t bytes = 0;         // a multiple of the threads' kClusterVectorsInFlight vectors
  uint32_t* sums = nullptr;  // of every thread of the grid, modulo 2^32
  BlockTimes* times = nullptr;
};
inline constexpr int kClusterThreads = 256;
inline constexpr int kClusterVectorsInFlight = 8;

}  // namespace fathom::probe
