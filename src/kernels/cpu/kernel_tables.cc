#include "kernels/cpu/kernel_tables.h"

#include "base/check.h"

namespace fathom::cpu {

const Kernels& KernelsFor(Isa isa) {
  Check(isa != Isa::kScalar, "the scalar instruction set is the reference backend");
  switch (isa) {
    case Isa::kAmx:
      return amx::Table();
    case Isa::kAvx512Bf16:
      return avx512_bf16::Table();
    case Isa::kAvx512:
      return avx512::Table();
    default:
      return avx2::Table();
  }
}

}  // namespace fathom::cpu
