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
#include "kernels/shape_checks.h"

namespace fathom {
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

void ReferenceBackend::SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                              Matrix<Bf16> out) {
  CheckSwiGlu(gate, up, out);
  for (std::int64_t i = 0; i < out.rows * out.cols; ++i) {
    out.data[i] = ToBf16(Activate(gate.data[i], up.data[i], clamp));
  }
}

void ReferenceBackend::Route(Matrix<const float> logits, std::span<const float> bias, float scale,
                             const Routing& out) {
  CheckRoute(logits, bias, out);
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    ChooseExperts(logits.RowSpan(row), bias, out.ids.RowSpan(row));
    WeighExperts(logits.RowSpan(row), out.ids.RowSpan(row), scale, out.weights.Row(row));
  }
}

void ReferenceBackend::RouteByToken(const BatchView& batch, Matrix<const float> logits,
                                    Matrix<const std::int64_t> table, float scale,
                                    const Routing& out) {
  CheckRouteByToken(batch, logits, table, out);
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    Token token = batch.tokens[static_cast<std::size_t>(row)];
    if (token < 0 || token >= table.rows) {
      fault_.Set(Fault::kTokenOutsideVocabulary, row);
      token = 0;
    }
    const std::span<std::int32_t> ids = out.ids.RowSpan(row);
    for (std::int64_t i = 0; i < table.cols; ++i) {
      std::int64_t id = 0;  // the address of the table may be unaligned
      std::memcpy(&id, table.Row(token) + i, sizeof id);
      if (id < 0 || id >= logits.cols) {
        fault_.Set(Fault::kUnknownExpertInTable, row);
        id = 0;
      }
      ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
    }
    std::sort(ids.begin(), ids.end());
    WeighExperts(logits.RowSpan(row), ids, scale, out.weights.Row(row));
  }
}

ExpertSet ReferenceBackend::BindExperts(std::int64_t block,
                                        std::span<const ExpertWeights> experts) {
  return {.block = block, .experts = experts, .is_uniform = AreUniform(experts)};
}

void ReferenceBackend::ExpertRows(Matrix<const Bf16> x, const Routing& routing,
                                  const ExpertSet& set, float clamp, Matrix<Bf16> rows) {
  const std::int64_t k = routing.ids.cols;
  CheckExpertRows(x, routing, rows);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const std::int32_t id = routing.ids.data[i];
    if (id == kRemoteExpert) continue;
    if (id < 0 || id >= std::ssize(set.experts)) {
      fault_.Set(Fault::kUnknownExpert, i / k);
      continue;
    }
    const ExpertWeights& expert = set.experts[static_cast<std::size_t>(id)];
    std::vector<Bf16> gate(static_cast<std::size_t>(expert.w1.n));
    std::vector<Bf16> up(static_cast<std::size_t>(expert.w3.n));
    const Matrix<const Bf16> in = x.Rows(i / k, 1);
    ReferenceBackend::Linear(in, expert.w1, Matrix<Bf16>{gate.data(), 1, expert.w1.n});
    ReferenceBackend::Linear(in, expert.w3, Matrix<Bf16>{up.data(), 1, expert.w3.n});
    for (std::size_t j = 0; j < gate.size(); ++j) {
      gate[j] = ToBf16(routing.weights.data[i] * Activate(gate[j], up[j], clamp));
    }
    ReferenceBackend::Linear(Matrix<const Bf16>{gate.data(), 1, expert.w1.n}, expert.w2,
                             rows.Rows(i, 1));
  }
}

void ReferenceBackend::CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                                      Matrix<Bf16> out) {
  const std::int64_t k = out.rows == 0 ? 0 : rows.rows / out.rows;
  CheckCombineExperts(rows, shared, out);
  for (std::int64_t row = 0; row < out.rows; ++row) {
    for (std::int64_t i = 0; i < out.cols; ++i) {
      float sum = ToFloat(rows.Row(row * k)[i]);
      for (std::int64_t j = 1; j < k; ++j) {
        sum = sum + ToFloat(rows.Row(row * k + j)[i]);
      }
      out.Row(row)[i] = ToBf16(sum + ToFloat(shared.Row(row)[i]));
    }
  }
}

}  // namespace fathom
