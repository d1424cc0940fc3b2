// Finds the instruction set that computes fastest on this machine.
#pragma once

#include "kernels/cpu/isa.h"

namespace fathom {

// Returns the instruction set to use where none is requested: the last of AvailableIsas(), but
// avx512 instead of avx512_bf16 if the processor, like Intel's, does fewer multiply-adds per second
// with pairs of bf16 than with fp32. Results are equal bit for bit. The first call measures this
// speed, for at most a few milliseconds; later calls return the same set. Any thread may call it.
Isa PreferredIsa();

}  // namespace fathom
