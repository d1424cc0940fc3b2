// Memory of the host, as kernels see it.
#include "tools/gpu_checks/probes/host.h"

#include "tools/gpu_checks/probes/read_vectors.h"

namespace fathom::probe {

struct Vector4 {
  uint32_t words[1];
};
struct alignas(8) Vector8 {
  uint32_t words[2];
};

template <class Vector>
GPU_DEVICE void ReadVectors(const HostReadArguments& a) {
  a.sums[BlockX() * BlockThreads() + ThreadX()] = SumVectors<4>(
      static_cast<const Vector*>(a.from), a.bytes / static_cast<int64_t>(sizeof(Vector)));
}

GPU_KERNEL(ReadHostBy4, HostReadArguments a) { ReadVectors<Vector4>(a); }
GPU_KERNEL(ReadHostBy8, HostReadArguments a) { ReadVectors<Vector8>(a); }
GPU_KERNEL(ReadHostBy16, HostReadArguments a) { ReadVectors<Vector16>(a); }

GPU_KERNEL(AnswerFlags, FlagArguments a) {
  if (ThreadX() > 0) return;
  for (uint32_t round = 1; round <= a.n_rounds; ++round) {
    const uint64_t began = Nanoseconds();
    while (LoadFlag(a.asked) < round) {
      if (Nanoseconds() - began > a.limit) {
        StoreFlag(a.answered, kNoAnswer);
        return;
      }
    }
    StoreFlag(a.answered, round);
  }
}

GPU_KERNEL(Delay, DelayArguments a) {
  const uint64_t began = Nanoseconds();
  while (Nanoseconds() - began < a.nanoseconds) {
  }
}

}  // namespace fathom::probe
