// Embedding, norms and rotary positions (docs/numerics.md 3 and 4).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/reference/vectors.h"
#include "kernels/shape_checks.h"

namespace fathom {
namespace {

// Computes the unweighted norm of one query head, rounded to bf16 at every step.
void NormalizeHead(Bf16* q, std::int64_t head_dim, float eps) {
  const float sum = LaneSum(head_dim, [&](std::int64_t i) {
    const float x = ToFloat(q[i]);
    return RoundToBf16(x * x);
  });
  const float mean = RoundToBf16(sum / static_cast<float>(head_dim));
  const float s = RoundToBf16(1.0f / std::sqrt(RoundToBf16(mean + eps)));
  for (std::int64_t i = 0; i < head_dim; ++i) {
    q[i] = ToBf16(ToFloat(q[i]) * s);
  }
}

}  // namespace

void ReferenceBackend::Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
  CheckEmbed(batch, table, out);
  for (std::int64_t row = 0; row < out.rows; ++row) {
    Token token = batch.tokens[static_cast<std::size_t>(row)];
    if (token < 0 || token >= table.rows) {
      fault_.Set(Fault::kTokenOutsideVocabulary, row);
      token = 0;
    }
    for (std::int64_t copy = 0; copy < out.cols / table.cols; ++copy) {
      std::copy_n(table.Row(token), table.cols, out.Row(row) + copy * table.cols);
    }
  }
}

void ReferenceBackend::RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                               Matrix<Bf16> out) {
  CheckRmsNorm(x, weight, out);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    NormalizeRow(x.Row(row), weight.data(), eps, x.cols, out.Row(row));
  }
}

void ReferenceBackend::QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                                  const RopeRows& rope) {
  CheckQueryHeads(q, head_dim, rope);
  const std::int64_t pairs = rope.cos.cols;
  for (std::int64_t row = 0; row < q.rows; ++row) {
    for (Bf16* head = q.Row(row); head != q.Row(row) + q.cols; head += head_dim) {
      NormalizeHead(head, head_dim, eps);
      RotatePairs(head + head_dim - 2 * pairs, pairs, rope.cos.Row(row), rope.sin.Row(row));
    }
  }
}

void ReferenceBackend::WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                                  const RopeRows& rope) {
  CheckWindowKeys(kv, norm, rope);
  const std::int64_t pairs = rope.cos.cols;
  const std::int64_t plain = kv.cols - 2 * pairs;
  for (std::int64_t row = 0; row < kv.rows; ++row) {
    NormalizeRow(kv.Row(row), norm.data(), eps, kv.cols, kv.Row(row));
    RotatePairs(kv.Row(row) + plain, pairs, rope.cos.Row(row), rope.sin.Row(row));
    SimulateFp8(kv.Row(row), plain);
  }
}

}  // namespace fathom
