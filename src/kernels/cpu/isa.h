// The instruction sets of the CPU kernels: the sets that this machine has, the fastest one, and the
// kernels of each.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::kernels {

enum class Isa {
  kScalar,      // the reference backend
  kAvx2,        // AVX2, FMA
  kAvx512,      // AVX-512 F, BW, VL, DQ
  kAvx512Bf16,  // also AVX-512 BF16, VNNI, VBMI
  kAmx,         // AVX-512 as in kAvx512, BF16 products on AMX's matrix unit
};
inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16,
                                   Isa::kAmx};
inline constexpr std::string_view kIsaNames[] = {"scalar", "avx2", "avx512", "avx512_bf16", "amx"};

constexpr std::string_view Name(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }
// Parses the name of an instruction set; the error lists the known names.
Result<Isa> ParseIsa(std::string_view text);

// Returns the instruction sets that this processor and operating system can run, slowest first;
// always includes kScalar.
std::vector<Isa> AvailableIsas();

// Returns the instruction set to use where none is requested: the last of AvailableIsas(), but
// avx512 instead of avx512_bf16 if the processor, like Intel's, does fewer multiply-adds per second
// with pairs of bf16 than with fp32. Results are equal bit for bit. The first call measures this
// speed, for at most a few milliseconds; later calls return the same set. Any thread may call it.
Isa PreferredIsa();

namespace cpu {

struct Kernels;  // kernels/cpu/kernels.h

// isa: any but kScalar, which has no vector kernels. Only call the kernels on a machine with this
// instruction set.
const Kernels& KernelsFor(Isa isa);

}  // namespace cpu

}  // namespace fathom::kernels
