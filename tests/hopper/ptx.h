// Hopper's units in PTX: the device's implementation of hopper.h.
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"
#include "tests/hopper/wgmma.h"

#define HOPPER_KERNEL(Name, threads, cluster, argument)                                          \
  extern "C" __global__ __launch_bounds__(threads, 1) __cluster_dims__(cluster, 1, 1) void Name( \
      const __grid_constant__ argument)
#define HOPPER_SHARED(name)                                        \
  extern __shared__ __align__(1024) unsigned char hopper_shared[]; \
  const ::fathom::kernels::SharedWindow name(hopper_shared)

namespace fathom::kernels {

class SharedWindow {
 public:
  explicit GPU_DEVICE SharedWindow(unsigned char* bytes) : bytes_(bytes) {}
  GPU_DEVICE uint32_t Address(int64_t offset) const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(bytes_ + offset));
  }
  template <class T>
  GPU_DEVICE T Load(int64_t offset) const {
    return *reinterpret_cast<const T*>(bytes_ + offset);
  }
  template <class T>
  GPU_DEVICE void Store(int64_t offset, T value) const {
    *reinterpret_cast<T*>(bytes_ + offset) = value;
  }
  template <class T>
  GPU_DEVICE T LoadFrom(int rank, int64_t offset) const {
    return *reinterpret_cast<const T*>(Remote(rank, offset));
  }
  template <class T>
  GPU_DEVICE void StoreTo(int rank, int64_t offset, T value) const {
    *reinterpret_cast<T*>(Remote(rank, offset)) = value;
  }

 private:
  // Returns the place in another block, as a generic address.
  GPU_DEVICE unsigned char* Remote(int rank, int64_t offset) const {
    uint64_t address;
    asm volatile("mapa.u64 %0, %1, %2;"
                 : "=l"(address)
                 : "l"(reinterpret_cast<uint64_t>(bytes_ + offset)), "r"(rank));
    return reinterpret_cast<unsigned char*>(address);
  }
  unsigned char* bytes_;
};

GPU_DEVICE int ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
GPU_DEVICE void SyncCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
GPU_DEVICE void SyncNamed(int number, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(count) : "memory");
}

GPU_DEVICE void FenceProxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
GPU_DEVICE void InitBarrier(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
GPU_DEVICE void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
GPU_DEVICE void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
GPU_DEVICE void ArriveAndExpect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
GPU_DEVICE void WaitBarrier(uint32_t barrier, int parity) {
  uint32_t ended = 0;
  while (ended == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
GPU_DEVICE void CopyBytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
GPU_DEVICE void CopyTile(uint32_t to, const TensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

template <Number16 kType>
GPU_DEVICE void MultiplyByWarp(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kType == Number16::kF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}
template <bool kTransposed>
GPU_DEVICE void LoadMatrices(uint32_t (&pairs)[2], uint32_t address) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(pairs[0]), "=r"(pairs[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(pairs[0]), "=r"(pairs[1])
                 : "r"(address)
                 : "memory");
  }
}
template <bool kTransposed>
GPU_DEVICE void LoadMatrices(uint32_t (&pairs)[4], uint32_t address) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
  }
}

template <int kCount>
GPU_DEVICE void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
GPU_DEVICE void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

GPU_DEVICE void StartDependentKernels() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
GPU_DEVICE void WaitForEarlierKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

GPU_DEVICE void SetFlag(uint32_t* flag, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)),
               "r"(value)
               : "memory");
}
GPU_DEVICE void AddToFlag(uint32_t* flag, uint32_t value) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)),
               "r"(value)
               : "memory");
}
GPU_DEVICE void WaitForFlag(const uint32_t* flag, uint32_t least) {
  uint32_t found = 0;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(found)
                 : "l"(__cvta_generic_to_global(flag))
                 : "memory");
  } while (found < least);
}

}  // namespace fathom::kernels
