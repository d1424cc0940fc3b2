// The table of kernels for each instruction set.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"

namespace fathom::cpu {

// isa: any but kScalar, which has no vector kernels. Only call the kernels on a machine with this
// instruction set.
const Kernels& KernelsFor(Isa isa);

}  // namespace fathom::cpu
