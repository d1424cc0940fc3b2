// The instruction sets the CPU kernels are built for, and which of them this machine has.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

enum class Isa {
  kScalar,      // the reference backend
  kAvx2,        // AVX2, FMA
  kAvx512,      // AVX-512 F, BW, VL, DQ
  kAvx512Bf16,  // also AVX-512 BF16, VNNI, VBMI
};
inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

// "scalar", "avx2", "avx512", "avx512_bf16"
std::string_view Name(Isa isa);
// The inverse; the error lists what is known.
Result<Isa> ParseIsa(std::string_view text);

// What this processor and operating system can run, slowest first; kScalar always.
std::vector<Isa> AvailableIsas();

}  // namespace fathom
