// Norms of rows, and rotary positions (docs/numerics.md 3 and 4).
#include "kernels/gpu/device/norm.h"

#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/gpu.h"
#include "kernels/rope_angle.h"

namespace fathom::kernels::gpu {

GPU_KERNEL(RmsNorm, RmsNormArguments a) {
  GPU_SHARED(float, factor, 1);
  const Bf16* const x = a.x.Row(BlockX());
  Bf16* const out = a.out.Row(BlockX());
  if (ThreadX() < WaveSize()) {
    const auto number = [&](int64_t i) { return ToFloat(x[i]); };
    const float r = InverseRoot(ProductOfGroup(a.x.cols, number, number), a.x.cols, a.eps);
    if (ThreadX() == 0) {
      factor[0] = r;
    }
  }
  SyncBlock();
  const float r = factor[0];
  for (int64_t i = ThreadX(); i < a.x.cols; i += BlockThreads()) {
    out[i] = ToBf16(ToFloat(a.weight[i]) * (ToFloat(x[i]) * r));
  }
}

// Computes the unweighted norm of every head, rounded to bf16 at every step. A thread reads and
// writes only its own numbers.
GPU_KERNEL(QueryHeads, QueryHeadsArguments a) {
  const int64_t heads = a.q.cols / a.head_dim;
  const GroupItem item = ItemOfGroup(a.q.rows * heads);
  Bf16* const q = a.q.data + item.index * a.head_dim;
  float lane = 0.0f;
  for (int64_t i = GroupLane(); i < a.head_dim; i += kGroupThreads) {
    const float x = ToFloat(q[i]);
    lane = lane + RoundToBf16(x * x);
  }
  const float mean = RoundToBf16(Div(TreeOfGroup(lane), static_cast<float>(a.head_dim)));
  const float s = RoundToBf16(Div(1.0f, Sqrt(RoundToBf16(mean + a.eps))));
  if (!item.is_real) return;
  const auto normal = [&](int64_t i) { return ToBf16(ToFloat(q[i]) * s); };
  const int64_t row = item.index / heads;
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = a.head_dim - 2 * pairs;
  for (int64_t i = GroupLane(); i < plain; i += kGroupThreads) {
    q[i] = normal(i);
  }
  for (int64_t k = GroupLane(); k < pairs; k += kGroupThreads) {
    const int64_t i = plain + 2 * k;
    const RotatedPair pair =
        Rotate(normal(i), normal(i + 1), a.rope.cos.Row(row)[k], a.rope.sin.Row(row)[k]);
    q[i] = pair.x;
    q[i + 1] = pair.y;
  }
}

// Norm, RoPE, then FP8 simulation of the other dimensions. After the sum, a thread reads and writes
// only its own numbers.
GPU_KERNEL(WindowKeys, WindowKeysArguments a) {
  const GroupItem item = ItemOfGroup(a.kv.rows);
  Bf16* const x = a.kv.Row(item.index);
  const auto number = [&](int64_t i) { return ToFloat(x[i]); };
  const float r = InverseRoot(ProductOfGroup(a.kv.cols, number, number), a.kv.cols, a.eps);
  const auto normal = [&](int64_t i) { return ToBf16(ToFloat(a.norm[i]) * (ToFloat(x[i]) * r)); };
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = a.kv.cols - 2 * pairs;
  for (int64_t first = 0; first < plain; first += kSimulationGroup) {
    const float scale = SimulationScale(normal, first, kSimulationGroup);
    const float inverse = Div(1.0f, scale);
    for (int64_t i = first + GroupLane(); i < first + kSimulationGroup && item.is_real;
         i += kGroupThreads) {
      x[i] = ToBf16(E4m3ToFloat(E4m3Code(normal(i), inverse)) * scale);
    }
  }
  for (int64_t k = GroupLane(); k < pairs && item.is_real; k += kGroupThreads) {
    const int64_t i = plain + 2 * k;
    const RotatedPair pair = Rotate(normal(i), normal(i + 1), a.rope.cos.Row(item.index)[k],
                                    a.rope.sin.Row(item.index)[k]);
    x[i] = pair.x;
    x[i + 1] = pair.y;
  }
}

GPU_KERNEL(FillRopeRows, RopeRowsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.cos.rows * a.cos.cols) return;
  RopeAngle<GpuDoubleOps>(a.positions[i / a.cos.cols], a.frequencies[i % a.cos.cols],
                          a.cos.data + i, a.sin.data + i);
}

}  // namespace fathom::kernels::gpu
