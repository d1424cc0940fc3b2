#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fathom {
namespace {

// Requests the tile registers, which Linux grants to a process on request. May be called
// repeatedly.
bool AllowsTiles() {
#if defined(SYS_arch_prctl)
  constexpr int kRequestComponent = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;              // XFEATURE_XTILEDATA
  // Not every compiler's builtin knows the tiles.
  constexpr unsigned kTiles = 1u << 24;
  constexpr unsigned kTilesOfBf16 = 1u << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0 &&
         (d & kTilesOfBf16) != 0 && syscall(SYS_arch_prctl, kRequestComponent, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

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
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

Result<Isa> ParseIsa(std::string_view text) {
  for (const Isa isa : kAllIsas) {
    if (text == Name(isa)) return isa;
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "instruction set \"{}\" is not known; expected scalar, avx2, avx512, avx512_bf16 or amx",
      text);
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
  if (avx512 && __builtin_cpu_supports("avx512vbmi") != 0 && AllowsTiles()) {
    isas.push_back(Isa::kAmx);
  }
  return isas;
}

}  // namespace fathom
