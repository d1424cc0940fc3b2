// Weights into registers, by loads of 16 bytes.
#include "tools/gpu_checks/probes/streaming.h"

#include "tools/gpu_checks/probes/read_vectors.h"

namespace fathom::probe {

GPU_KERNEL(StreamRegisters, StreamArguments a) {
  const uint64_t began = Nanoseconds();
  a.sums[BlockX() * BlockThreads() + ThreadX()] = SumVectors<8>(a.from, a.n);
  EndOfBlock(a.times, began);
}

}  // namespace fathom::probe
