// Embedding, norms and rotary positions (docs/numerics.md 3 and 4).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/reference/vectors.h"
#include "kernels/rope.h"

namespace fathom::kernels {
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

struct ReferenceBackend::NormOperations {
  ReferenceBackend& self;

  void Compute(const FillRopeRowsOp& op) {
    for (std::int64_t row = 0; row < op.cos.rows; ++row) {
      RopeAngles(op.batch.positions[static_cast<std::size_t>(row)], op.frequencies, op.cos.Row(row),
                 op.sin.Row(row));
    }
  }

  void Compute(const EmbedOp& op) {
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      Token token = op.batch.tokens[static_cast<std::size_t>(row)];
      if (token < 0 || token >= op.table.rows) {
        self.fault_.Set(Fault::kTokenOutsideVocabulary, row);
        token = 0;
      }
      for (std::int64_t copy = 0; copy < op.out.cols / op.table.cols; ++copy) {
        std::copy_n(op.table.Row(token), op.table.cols, op.out.Row(row) + copy * op.table.cols);
      }
    }
  }

  void Compute(const RmsNormOp& op) {
    for (std::int64_t row = 0; row < op.x.rows; ++row) {
      NormalizeRow(op.x.Row(row), op.weight.data(), op.eps, op.x.cols, op.out.Row(row));
    }
  }

  void Compute(const QueryHeadsOp& op) {
    const std::int64_t pairs = op.rope.cos.cols;
    for (std::int64_t row = 0; row < op.q.rows; ++row) {
      for (Bf16* head = op.q.Row(row); head != op.q.Row(row) + op.q.cols; head += op.head_dim) {
        NormalizeHead(head, op.head_dim, op.eps);
        RotatePairs(head + op.head_dim - 2 * pairs, pairs, op.rope.cos.Row(row),
                    op.rope.sin.Row(row));
      }
    }
  }

  void Compute(const WindowKeysOp& op) {
    const std::int64_t pairs = op.rope.cos.cols;
    const std::int64_t plain = op.kv.cols - 2 * pairs;
    for (std::int64_t row = 0; row < op.kv.rows; ++row) {
      NormalizeRow(op.kv.Row(row), op.norm.data(), op.eps, op.kv.cols, op.kv.Row(row));
      RotatePairs(op.kv.Row(row) + plain, pairs, op.rope.cos.Row(row), op.rope.sin.Row(row));
      SimulateFp8(op.kv.Row(row), plain);
    }
  }
};

bool ReferenceBackend::ComputeNorm(const Operation& operation) {
  return ComputeBy(NormOperations{*this}, operation);
}

}  // namespace fathom::kernels
