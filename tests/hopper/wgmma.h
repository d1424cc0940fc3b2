// Products of a warpgroup in PTX: wgmma m64nNk16 for N = 8, 64, 128 and 256, whose registers an
// instruction names one by one.
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"
#include "tests/hopper/number16.h"

// The operands of an instruction: registers of the sums by number, and the sums themselves.
// clang-format off
#define WGMMA_NAMES_4 "%0, %1, %2, %3"
#define WGMMA_NAMES_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_64 \
  WGMMA_NAMES_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_128 \
  WGMMA_NAMES_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_SUMS_8(d, i) \
  WGMMA_SUMS_4(d, i), WGMMA_SUMS_4(d, i + 4)
#define WGMMA_SUMS_32(d, i) \
  WGMMA_SUMS_8(d, i), WGMMA_SUMS_8(d, i + 8), WGMMA_SUMS_8(d, i + 16), WGMMA_SUMS_8(d, i + 24)
#define WGMMA_SUMS_64(d, i) WGMMA_SUMS_32(d, i), WGMMA_SUMS_32(d, i + 32)
#define WGMMA_SUMS_128(d, i) WGMMA_SUMS_64(d, i), WGMMA_SUMS_64(d, i + 64)
// clang-format on

// An instruction with n sums; a, b and predicate are the names of the operands after the sums.
#define WGMMA(shape, type, n, a, b, predicate, transpositions, ...)                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " predicate                           \
               ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." type "." type       \
               " {" WGMMA_NAMES_##n "}, " a ", " b ", p, 1, 1, " transpositions ";\n}" \
               : WGMMA_SUMS_##n(sums.numbers, 0)                                       \
               : __VA_ARGS__                                                           \
               : "memory")
#define WGMMA_FROM_SHARED(shape, type, n, a, b, predicate) \
  WGMMA(shape, type, n, a, b, predicate, "0, 0", "l"(a_tile), "l"(b_tile), "r"(adds_number))
#define WGMMA_FROM_REGISTERS(shape, type, n, a, b, predicate)                               \
  WGMMA(shape, type, n, a, b, predicate, "0", "r"(a_pairs.pairs[0]), "r"(a_pairs.pairs[1]), \
        "r"(a_pairs.pairs[2]), "r"(a_pairs.pairs[3]), "l"(b_tile), "r"(adds_number))

namespace fathom::kernels {

template <int kColumns>
struct WgmmaSums {
  GPU_DEVICE float& operator[](int i) { return numbers[i]; }
  float numbers[kColumns / 2];
};

struct WgmmaOperand {
  GPU_DEVICE uint32_t& operator[](int i) { return pairs[i]; }
  uint32_t pairs[4];
};

GPU_DEVICE void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPU_DEVICE void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Also keeps the compiler from using the sums earlier.
template <int kPending, int kN>
GPU_DEVICE void WgmmaWait(WgmmaSums<kN>& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  GPU_UNROLL
  for (int i = 0; i < kN / 2; ++i) {
    asm volatile("" : "+f"(sums.numbers[i])::"memory");
  }
}

template <Number16 kType, int kN>
GPU_DEVICE void Wgmma(WgmmaSums<kN>& sums, uint64_t a_tile, uint64_t b_tile, bool adds) {
  static_assert(kN == 8 || kN == 64 || kN == 128 || kN == 256);
  const int adds_number = adds ? 1 : 0;
  if constexpr (kN == 8 && kType == Number16::kF16) {
    WGMMA_FROM_SHARED("m64n8k16", "f16", 4, "%4", "%5", "%6");
  } else if constexpr (kN == 8 && kType == Number16::kBf16) {
    WGMMA_FROM_SHARED("m64n8k16", "bf16", 4, "%4", "%5", "%6");
  } else if constexpr (kN == 64 && kType == Number16::kF16) {
    WGMMA_FROM_SHARED("m64n64k16", "f16", 32, "%32", "%33", "%34");
  } else if constexpr (kN == 64 && kType == Number16::kBf16) {
    WGMMA_FROM_SHARED("m64n64k16", "bf16", 32, "%32", "%33", "%34");
  } else if constexpr (kN == 128 && kType == Number16::kF16) {
    WGMMA_FROM_SHARED("m64n128k16", "f16", 64, "%64", "%65", "%66");
  } else if constexpr (kN == 128 && kType == Number16::kBf16) {
    WGMMA_FROM_SHARED("m64n128k16", "bf16", 64, "%64", "%65", "%66");
  } else if constexpr (kN == 256 && kType == Number16::kF16) {
    WGMMA_FROM_SHARED("m64n256k16", "f16", 128, "%128", "%129", "%130");
  } else if constexpr (kN == 256 && kType == Number16::kBf16) {
    WGMMA_FROM_SHARED("m64n256k16", "bf16", 128, "%128", "%129", "%130");
  }
}
template <Number16 kType, int kN>
GPU_DEVICE void Wgmma(WgmmaSums<kN>& sums, const WgmmaOperand& a_pairs, uint64_t b_tile,
                      bool adds) {
  static_assert(kN == 8 || kN == 64 || kN == 128 || kN == 256);
  const int adds_number = adds ? 1 : 0;
  if constexpr (kN == 8 && kType == Number16::kF16) {
    WGMMA_FROM_REGISTERS("m64n8k16", "f16", 4, "{%4, %5, %6, %7}", "%8", "%9");
  } else if constexpr (kN == 8 && kType == Number16::kBf16) {
    WGMMA_FROM_REGISTERS("m64n8k16", "bf16", 4, "{%4, %5, %6, %7}", "%8", "%9");
  } else if constexpr (kN == 64 && kType == Number16::kF16) {
    WGMMA_FROM_REGISTERS("m64n64k16", "f16", 32, "{%32, %33, %34, %35}", "%36", "%37");
  } else if constexpr (kN == 64 && kType == Number16::kBf16) {
    WGMMA_FROM_REGISTERS("m64n64k16", "bf16", 32, "{%32, %33, %34, %35}", "%36", "%37");
  } else if constexpr (kN == 128 && kType == Number16::kF16) {
    WGMMA_FROM_REGISTERS("m64n128k16", "f16", 64, "{%64, %65, %66, %67}", "%68", "%69");
  } else if constexpr (kN == 128 && kType == Number16::kBf16) {
    WGMMA_FROM_REGISTERS("m64n128k16", "bf16", 64, "{%64, %65, %66, %67}", "%68", "%69");
  } else if constexpr (kN == 256 && kType == Number16::kF16) {
    WGMMA_FROM_REGISTERS("m64n256k16", "f16", 128, "{%128, %129, %130, %131}", "%132", "%133");
  } else if constexpr (kN == 256 && kType == Number16::kBf16) {
    WGMMA_FROM_REGISTERS("m64n256k16", "bf16", 128, "{%128, %129, %130, %131}", "%132", "%133");
  }
}

}  // namespace fathom::kernels
