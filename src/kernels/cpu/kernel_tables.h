// Which table of kernels belongs to which instruction set.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"

namespace fathom::cpu {

// isa: any but kScalar, which has no vector kernels. Only a machine that has it may call them.
const Kernels& TableOf(Isa isa);

}  // namespace fathom::cpu
