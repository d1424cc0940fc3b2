#include "kernels/cpu/isa.h"

namespace fathom {

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "";
}

Result<Isa> ParseIsa(std::string_view text) {
  for (const Isa isa : kAllIsas) {
    if (text == Name(isa)) return isa;
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "instruction set \"{}\" is not known; expected scalar, avx2, avx512 or avx512_bf16", text);
}

// The builtin checks the processor and, for wide registers, the operating system's support.
std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas = {Isa::kScalar};
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (avx2) {
    isas.push_back(Isa::kAvx2);
  }
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  if (avx512) {
    isas.push_back(Isa::kAvx512);
  }
  if (avx512 && __builtin_cpu_supports("avx512bf16") != 0 &&
      __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512vbmi") != 0) {
    isas.push_back(Isa::kAvx512Bf16);
  }
  return isas;
}

}  // namespace fathom
