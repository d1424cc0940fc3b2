// One instruction of the matrix units for each case: mma.sync by the four warps of a block, 16 rows
// each; wgmma (sm_90a) by all of them together.
#include "tests/gpu/arithmetic/arithmetic.h"

namespace fathom::probe {
namespace {

// A thread's part of a case: the registers of m16n8k16, of the warp's rows.
struct Registers {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float d[4];
};

__device__ inline int Group() { return static_cast<int>(threadIdx.x % 32 / 4); }
__device__ inline int InGroup() { return static_cast<int>(threadIdx.x % 4); }
__device__ inline int FirstRow() { return static_cast<int>(threadIdx.x / 32 * 16); }

// The number of sum i of the thread in C and D.
__device__ inline std::int64_t SumIndex(int i) {
  const int row = FirstRow() + Group() + i / 2 * 8;
  return (std::int64_t{blockIdx.x} * kRows + row) * kColumns + 2 * InGroup() + i % 2;
}

__device__ inline Registers Read(const Arguments& x) {
  Registers r;
  const std::uint32_t* const a = x.a + std::int64_t{blockIdx.x} * kRows * kRowWords;
  const std::uint32_t* const b = x.b + std::int64_t{blockIdx.x} * kColumns * kRowWords;
  for (int i = 0; i < 4; ++i) {
    r.a[i] = a[(FirstRow() + Group() + i % 2 * 8) * kRowWords + InGroup() + i / 2 * 4];
    r.d[i] = x.c[SumIndex(i)];
  }
  for (int i = 0; i < 2; ++i) r.b[i] = b[Group() * kRowWords + InGroup() + i * 4];
  return r;
}

__device__ inline void Write(const Arguments& x, const Registers& r) {
  for (int i = 0; i < 4; ++i) x.d[SumIndex(i)] = r.d[i];
}

}  // namespace

#define PROBE_MMA(Name, shape, type)                                                              \
  extern "C" __global__ void Name(const __grid_constant__ Arguments x) {                          \
    Registers r = Read(x);                                                                        \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                          \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
                 : "+f"(r.d[0]), "+f"(r.d[1]), "+f"(r.d[2]), "+f"(r.d[3])                         \
                 : "r"(r.a[0]), "r"(r.a[1]), "r"(r.a[2]), "r"(r.a[3]), "r"(r.b[0]), "r"(r.b[1])); \
    Write(x, r);                                                                                  \
  }

PROBE_MMA(MmaF16, "m16n8k16", "f16")
PROBE_MMA(MmaBf16, "m16n8k16", "bf16")

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
PROBE_MMA(MmaE4m3, "m16n8k32", "e4m3")

// B lies in shared memory as two pieces of 8 columns by 16 bytes, without swizzle: bits 0 to 13 of
// the descriptor are the address, 16 to 29 the distance of the pieces along K, 32 to 45 that along
// the columns, in 16 bytes each.
#define PROBE_WGMMA(Name, shape, type, transposed)                                         \
  extern "C" __global__ void Name(const __grid_constant__ Arguments x) {                   \
    __shared__ alignas(1024) std::uint32_t pieces[2][kColumns][4];                         \
    const std::uint32_t* const b = x.b + std::int64_t{blockIdx.x} * kColumns * kRowWords;  \
    if (threadIdx.x < kColumns * kRowWords) {                                              \
      const int word = static_cast<int>(threadIdx.x) % kRowWords;                          \
      const int column = static_cast<int>(threadIdx.x) / kRowWords;                        \
      pieces[word / 4][column][word % 4] = b[threadIdx.x];                                 \
    }                                                                                      \
    asm volatile("fence.proxy.async;" ::: "memory");                                       \
    __syncthreads();                                                                       \
    const std::uint64_t address = __cvta_generic_to_shared(pieces) >> 4 & 0x3FFF;          \
    const std::uint64_t tile = address | std::uint64_t{8} << 16 | std::uint64_t{16} << 32; \
    Registers r = Read(x);                                                                 \
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                \
    asm volatile(                                                                          \
        "{\n.reg .pred adds;\nsetp.eq.u32 adds, 0, 0;\n"                                   \
        "wgmma.mma_async.sync.aligned." shape ".f32." type "." type                        \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, adds, 1, 1" transposed ";\n}"            \
        : "+f"(r.d[0]), "+f"(r.d[1]), "+f"(r.d[2]), "+f"(r.d[3])                           \
        : "r"(r.a[0]), "r"(r.a[1]), "r"(r.a[2]), "r"(r.a[3]), "l"(tile)                    \
        : "memory");                                                                       \
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                         \
    asm volatile("wgmma.wait_group.sync.aligned 0;"                                        \
                 : "+f"(r.d[0]), "+f"(r.d[1]), "+f"(r.d[2]), "+f"(r.d[3])::"memory");      \
    Write(x, r);                                                                           \
  }

PROBE_WGMMA(WgmmaF16, "m64n8k16", "f16", ", 0")
PROBE_WGMMA(WgmmaBf16, "m64n8k16", "bf16", ", 0")
PROBE_WGMMA(WgmmaE4m3, "m64n8k32", "e4m3", "")
#endif

}  // namespace fathom::probe
