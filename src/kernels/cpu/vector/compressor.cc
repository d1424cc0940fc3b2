// Computes the softmax over the slots of a compressed row, channel by channel (docs/numerics.md 6).
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/math.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kMaxSlots = 128;

}  // namespace

void Pool(const cpu::PoolTask& task) {
  ForVectors(task.width, [&](int64_t channel, int n) {
    F32 maximum = Set(-__builtin_inff());
    for (int64_t s = 0; s < task.n_slots; ++s) {
      maximum = Max(LoadSome(task.scores[s] + channel, n), maximum);
    }
    F32 p[kMaxSlots];
    F32 sum = Zero();
    for (int64_t s = 0; s < task.n_slots; ++s) {
      p[s] = Exp<VectorOps>(LoadSome(task.scores[s] + channel, n) - maximum);
      sum = sum + p[s];
    }
    F32 pooled = Zero();
    for (int64_t s = 0; s < task.n_slots; ++s) {
      pooled = pooled + p[s] / sum * LoadSome(task.values[s] + channel, n);
    }
    StoreBf16Some(task.out + channel, pooled, n);
  });
}

}  // namespace fathom::kernels::KERNEL_ISA
