#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/kernels.h"

namespace fathom::kernels {
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

using Clock = std::chrono::steady_clock;

// 50 to 200 us: longer than a timer's ticks, shorter than a turn of the scheduler.
constexpr std::int64_t kCount = cpu::kMultiplyAddUnit << 13;
// The first round raises the clock and wakes the wide registers; one of the others is not
// interrupted.
constexpr int kTimings = 8;

double Seconds(const cpu::Kernels& kernels, volatile std::int32_t& sink) {
  const Clock::time_point start = Clock::now();
  sink = std::bit_cast<std::int32_t>(kernels.operand_multiply_adds(kCount));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Zen 4 does twice as many multiply-adds with pairs of bf16 as with fp32, Sapphire and Emerald
// Rapids half as many. Processors are measured instead of recognised, since virtual machines hide
// their names.
bool PairsAreSlower() {
  double pairs = std::numeric_limits<double>::infinity();
  double floats = std::numeric_limits<double>::infinity();
  volatile std::int32_t sink = 0;
  for (int round = 0; round < kTimings; ++round) {
    pairs = std::min(pairs, Seconds(cpu::KernelsFor(Isa::kAvx512Bf16), sink));
    floats = std::min(floats, Seconds(cpu::KernelsFor(Isa::kAvx512), sink));
  }
  return pairs > floats;
}

Isa Prefer() {
  const Isa widest = AvailableIsas().back();
  return widest == Isa::kAvx512Bf16 && PairsAreSlower() ? Isa::kAvx512 : widest;
}

}  // namespace

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

Isa PreferredIsa() {
  static const Isa preferred = Prefer();
  return preferred;
}

const cpu::Kernels& cpu::KernelsFor(Isa isa) {
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

}  // namespace fathom::kernels
