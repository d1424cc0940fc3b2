// The instruction set that computes fastest on this machine.
#pragma once

#include "kernels/cpu/isa.h"

namespace fathom {

// Returns the instruction set to use where none is asked for: the last of AvailableIsas(), except
// that avx512, where there is no amx, stands before avx512_bf16 where the processor does fewer
// multiply-adds per second with pairs of bf16 than with fp32, as Intel's do. Bits are the same with
// both. The first call measures that, at most a few milliseconds; later ones return the same. Any
// thread may call it.
Isa PreferredIsa();

}  // namespace fathom
