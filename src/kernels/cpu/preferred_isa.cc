#include "kernels/cpu/preferred_isa.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

#include "kernels/cpu/kernel_tables.h"

namespace fathom {
namespace {

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

Isa PreferredIsa() {
  static const Isa preferred = Prefer();
  return preferred;
}

}  // namespace fathom
