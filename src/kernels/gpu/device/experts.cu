// The routed experts (docs/numerics.md 8).
#include "kernels/gpu/device/experts.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/product.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// The work of a group: an output of one expert for one token.
struct ExpertItem {
  int64_t row = 0;
  int64_t i = 0;  // index of the output
  bool is_real = true;
  bool is_known = false;                  // the id is an expert of the table
  const ExpertWeights* expert = nullptr;  // null: unknown, or another device or the host has it
};

GPU_DEVICE ExpertItem MakeExpertItem(const ExpertArguments& a, int64_t n_outputs) {
  const int64_t outputs_of_block = BlockThreads() / kGroupThreads;
  const int64_t tiles = TileCount(n_outputs, outputs_of_block);
  const int64_t i = BlockX() % tiles * outputs_of_block + ThreadX() / kGroupThreads;
  const int64_t row = BlockX() / tiles;
  const int32_t id = a.ids.data[row];
  const bool is_known = id >= 0 && id < a.n_experts;
  const bool is_here = is_known && a.experts[id].w1.data != nullptr;
  return {row, i < n_outputs ? i : n_outputs - 1, i < n_outputs, is_known,
          is_here ? a.experts + id : nullptr};
}

// Returns the product of a row of activations, in either form, with row i of any weight. In lane 0.
GPU_DEVICE float MultiplyRow(const PlainRows& x, const QuantizedRows& quantized, int64_t row,
                             const Weight& w, int64_t i) {
  float sum = 0.0f;
  switch (w.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      Products<PlainProduct, 1>(x, row, w, i, &sum);
      break;
    case WeightFormat::kFp8:
      Products<Fp8Product, 1>(quantized, row, w, i, &sum);
      break;
    case WeightFormat::kFp4:
      Products<Fp4Product, 1>(quantized, row, w, i, &sum);
      break;
  }
  return sum;
}

}  // namespace

// hidden = bf16(weight * silu(min(gate, clamp)) * clamp(up)).
GPU_KERNEL(ExpertHidden, ExpertArguments a) {
  const ExpertItem item = MakeExpertItem(a, a.hidden.cols);
  if (item.expert == nullptr) {
    if (ThreadX() == 0 && !item.is_known && a.ids.data[item.row] != kRemoteExpert) {
      SetFault(a.fault, Fault::kUnknownExpert, a.first_token + item.row / a.ids.cols);
    }
    return;
  }
  const int64_t token = item.row / a.ids.cols;
  const QuantizedRows quantized = {a.codes, a.scales};
  const Bf16 gate = ToBf16(MultiplyRow({a.x}, quantized, token, item.expert->w1, item.i));
  const Bf16 up = ToBf16(MultiplyRow({a.x}, quantized, token, item.expert->w3, item.i));
  if (GroupLane() == 0 && item.is_real) {
    a.hidden.Row(item.row)[item.i] = ToBf16(a.weights[item.row] * Activate(gate, up, a.clamp));
  }
}

GPU_KERNEL(ExpertOutput, ExpertArguments a) {
  const ExpertItem item = MakeExpertItem(a, a.rows.cols);
  if (item.expert == nullptr) return;
  const float sum = MultiplyRow({a.hidden}, {a.codes, a.scales}, item.row, item.expert->w2, item.i);
  if (GroupLane() == 0 && item.is_real) {
    a.rows.Row(item.row)[item.i] = ToBf16(sum);
  }
}

GPU_KERNEL(CombineExperts, CombineArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.out.rows * a.out.cols) return;
  const int64_t row = i / a.out.cols;
  const int64_t column = i % a.out.cols;
  float sum = ToFloat(a.rows.Row(row * a.k)[column]);
  for (int64_t j = 1; j < a.k; ++j) {
    sum = sum + ToFloat(a.rows.Row(row * a.k + j)[column]);
  }
  a.out.data[i] = ToBf16(sum + ToFloat(a.shared.data[i]));
}

}  // namespace fathom::kernels::gpu
