#include "tests/hopper/hopper.h"
#include "tools/gpu_checks/probes/prefetch.h"

namespace fathom::probe {

HOPPER_KERNEL(PrefetchWeights, 32, 1, PrefetchArguments a) {
  const int64_t threads = GridX() * BlockThreads();
  for (int64_t i = BlockX() * BlockThreads() + ThreadX(); i < a.bytes / kPrefetchChunk;
       i += threads) {
    PrefetchToCache(a.from + i * (kPrefetchChunk / 16), kPrefetchChunk);
  }
}

}  // namespace fathom::probe
