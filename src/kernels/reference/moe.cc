// Mixture of experts (docs/numerics.md 8; docs/spec/model.md 7).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/math.h"
#include "kernels/reference/reference_backend.h"

namespace fathom::kernels {
namespace {

float RouterScore(float logit) { return std::sqrt(Softplus<ScalarOps>(logit)); }

// silu(min(gate, clamp)) * clamp(up). NaN stays NaN.
float Activate(Bf16 gate, Bf16 up, float clamp) {
  const float g = std::min(ToFloat(gate), clamp);
  const float v = std::max(std::min(ToFloat(up), clamp), -clamp);
  return Silu<ScalarOps>(g) * v;
}

// Computes the weights [k] of the chosen experts ids [k] of one token.
void WeighExperts(std::span<const float> logits, std::span<const std::int32_t> ids, float scale,
                  float* weights) {
  float sum = 0.0f;
  for (const std::int32_t id : ids) {
    sum = sum + RouterScore(logits[static_cast<std::size_t>(id)]);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    weights[i] = RouterScore(logits[static_cast<std::size_t>(ids[i])]) / sum * scale;
  }
}

// Chooses the ids.size() experts with the highest score + bias, ties lowest id; in ascending order.
void ChooseExperts(std::span<const float> logits, std::span<const float> bias,
                   std::span<std::int32_t> ids) {
  std::vector<float> choice;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const float biased = RouterScore(logits[e]) + bias[e];
    choice.push_back(std::isnan(biased) ? -std::numeric_limits<float>::infinity() : biased);
  }
  std::vector<bool> taken(logits.size());
  for (std::int32_t& id : ids) {
    id = -1;
    for (std::size_t e = 0; e < choice.size(); ++e) {
      if (!taken[e] && (id < 0 || choice[e] > choice[static_cast<std::size_t>(id)])) {
        id = static_cast<std::int32_t>(e);
      }
    }
    taken[static_cast<std::size_t>(id)] = true;
  }
  std::sort(ids.begin(), ids.end());
}

}  // namespace

struct ReferenceBackend::ExpertOperations {
  ReferenceBackend& self;

  void Compute(const SwiGluOp& op) {
    for (std::int64_t i = 0; i < op.out.rows * op.out.cols; ++i) {
      op.out.data[i] = ToBf16(Activate(op.gate.data[i], op.up.data[i], op.clamp));
    }
  }

  void Compute(const RouteOp& op) {
    for (std::int64_t row = 0; row < op.logits.rows; ++row) {
      ChooseExperts(op.logits.RowSpan(row), op.bias, op.out.ids.RowSpan(row));
      WeighExperts(op.logits.RowSpan(row), op.out.ids.RowSpan(row), op.scale,
                   op.out.weights.Row(row));
    }
  }

  void Compute(const RouteByTokenOp& op) {
    for (std::int64_t row = 0; row < op.logits.rows; ++row) {
      Token token = op.batch.tokens[static_cast<std::size_t>(row)];
      if (token < 0 || token >= op.table.rows) {
        self.fault_.Set(Fault::kTokenOutsideVocabulary, row);
        token = 0;
      }
      const std::span<std::int32_t> ids = op.out.ids.RowSpan(row);
      for (std::int64_t i = 0; i < op.table.cols; ++i) {
        std::int64_t id = 0;  // the address of the table may be unaligned
        std::memcpy(&id, op.table.Row(token) + i, sizeof id);
        if (id < 0 || id >= op.logits.cols) {
          self.fault_.Set(Fault::kUnknownExpertInTable, row);
          id = 0;
        }
        ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
      }
      std::sort(ids.begin(), ids.end());
      WeighExperts(op.logits.RowSpan(row), ids, op.scale, op.out.weights.Row(row));
    }
  }

  void Compute(const ExpertRowsOp& op) {
    const std::int64_t k = op.routing.ids.cols;
    for (std::int64_t i = 0; i < op.rows.rows; ++i) {
      const std::int32_t id = op.routing.ids.data[i];
      if (id == kRemoteExpert) continue;
      if (id < 0 || id >= std::ssize(op.experts.experts)) {
        self.fault_.Set(Fault::kUnknownExpert, i / k);
        continue;
      }
      const ExpertWeights& expert = op.experts.experts[static_cast<std::size_t>(id)];
      std::vector<Bf16> gate(static_cast<std::size_t>(expert.w1.n));
      std::vector<Bf16> up(static_cast<std::size_t>(expert.w3.n));
      const Matrix<const Bf16> in = op.x.Rows(i / k, 1);
      self.ReferenceBackend::Compute(
          LinearOp<Bf16>{in, expert.w1, Matrix<Bf16>{gate.data(), 1, expert.w1.n}});
      self.ReferenceBackend::Compute(
          LinearOp<Bf16>{in, expert.w3, Matrix<Bf16>{up.data(), 1, expert.w3.n}});
      for (std::size_t j = 0; j < gate.size(); ++j) {
        gate[j] = ToBf16(op.routing.weights.data[i] * Activate(gate[j], up[j], op.clamp));
      }
      self.ReferenceBackend::Compute(LinearOp<Bf16>{Matrix<const Bf16>{gate.data(), 1, expert.w1.n},
                                                    expert.w2, op.rows.Rows(i, 1)});
    }
  }

  void Compute(const CombineExpertsOp& op) {
    const std::int64_t k = op.out.rows == 0 ? 0 : op.rows.rows / op.out.rows;
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      for (std::int64_t i = 0; i < op.out.cols; ++i) {
        float sum = ToFloat(op.rows.Row(row * k)[i]);
        for (std::int64_t j = 1; j < k; ++j) {
          sum = sum + ToFloat(op.rows.Row(row * k + j)[i]);
        }
        op.out.Row(row)[i] = ToBf16(sum + ToFloat(op.shared.Row(row)[i]));
      }
    }
  }
};

bool ReferenceBackend::ComputeExpert(const Operation& operation) {
  return ComputeBy(ExpertOperations{*this}, operation);
}

ExpertSet ReferenceBackend::BindExperts(std::int64_t block,
                                        std::span<const ExpertWeights> experts) {
  return {.block = block, .experts = experts, .is_uniform = AreUniform(experts)};
}

}  // namespace fathom::kernels
