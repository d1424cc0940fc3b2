// Mixture of experts: routing, and the products of each expert with the tokens that chose it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace fathom {
namespace {

// Finds the ids.size() largest of choice [n], ties lowest id; in ascending order. Overwrites
// choice.
void ChooseLargest(std::span<float> choice, std::span<std::int32_t> ids) {
  constexpr float kTaken = -std::numeric_limits<float>::infinity();
  for (std::size_t chosen = 0; chosen < ids.size(); ++chosen) {
    std::int32_t best = -1;
    for (std::size_t e = 0; e < choice.size(); ++e) {
      const auto id = static_cast<std::int32_t>(e);
      const bool taken = std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(chosen),
                                   id) != ids.begin() + static_cast<std::ptrdiff_t>(chosen);
      if (choice[e] == kTaken && taken) continue;
      if (best < 0 || choice[e] > choice[static_cast<std::size_t>(best)]) {
        best = id;
      }
    }
    ids[chosen] = best;
    choice[static_cast<std::size_t>(best)] = kTaken;
  }
  std::sort(ids.begin(), ids.end());
}

// Returns the product with t prepared rows.
cpu::Product WithRows(cpu::Product product, std::int64_t t) {
  product.t = t;
  product.x_stride = cpu::PreparedStride(product.k);
  product.scale_stride = product.k / kFp8Block;
  return product;
}

}  // namespace

void CpuBackend::Compute(const RouteOp& op) {
  const auto n_experts = static_cast<std::size_t>(op.logits.cols);
  const auto choose = [&](std::int64_t first, std::int64_t end, int worker) {
    const std::span<float> piece = Piece(scratch_.expert_scores, worker, team_.n_threads());
    Check(2 * n_experts <= piece.size(), "Route: more experts than Reserve announced");
    const std::span<float> scores = piece.first(n_experts);
    const std::span<float> choice = piece.subspan(n_experts, n_experts);
    for (std::int64_t row = first; row < end; ++row) {
      kernels_.router_scores(op.logits.Row(row), op.logits.cols, scores.data());
      for (std::size_t e = 0; e < n_experts; ++e) {
        const float biased = scores[e] + op.bias[e];
        choice[e] = std::isnan(biased) ? -std::numeric_limits<float>::infinity() : biased;
      }
      const std::span<std::int32_t> ids = op.out.ids.RowSpan(row);
      ChooseLargest(choice, ids);
      float sum = 0.0f;
      for (const std::int32_t id : ids) {
        sum = sum + scores[static_cast<std::size_t>(id)];
      }
      for (std::size_t i = 0; i < ids.size(); ++i) {
        op.out.weights.Row(row)[i] = scores[static_cast<std::size_t>(ids[i])] / sum * op.scale;
      }
    }
  };
  ForItems(op.logits.rows, op.logits.cols * kActivationWork, choose);
}

// Sorts the tile's (token, slot) pairs by expert (counting sort), without remote experts.
void CpuBackend::SortPairs(const Routing& routing, std::int64_t n_experts) {
  const std::int64_t pairs = routing.ids.rows * routing.ids.cols;
  const std::span<std::int32_t> first =
      scratch_.first_pair.first(static_cast<std::size_t>(n_experts + 1));
  std::fill(first.begin(), first.end(), 0);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t id = routing.ids.data[i];
    if (id >= 0 && id < n_experts) {
      ++first[static_cast<std::size_t>(id) + 1];
    } else if (id != kRemoteExpert) {
      fault_.Set(Fault::kUnknownExpert, i / routing.ids.cols);
    }
  }
  for (std::size_t e = 0; e + 1 < first.size(); ++e) {
    first[e + 1] += first[e];
  }
  // first[e] is the place of the next pair of expert e; at the end it has become first[e + 1].
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t id = routing.ids.data[i];
    if (id < 0 || id >= n_experts) continue;
    const auto at = static_cast<std::size_t>(first[static_cast<std::size_t>(id)]++);
    scratch_.pair_rows[at] = static_cast<std::int32_t>(i);
    scratch_.pair_tokens[at] = static_cast<std::int32_t>(i / routing.ids.cols);
  }
  std::copy_backward(first.begin(), first.end() - 1, first.end());
  first[0] = 0;
}

// The gate and up rows of all experts are one loop, so that all threads are busy even with one
// token.
void CpuBackend::MultiplyInputs(std::span<const ExpertWeights> experts) {
  const std::int64_t width = experts[0].w1.n;
  std::size_t count = 0;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::int32_t first = scratch_.first_pair[e];
    const std::int32_t end = scratch_.first_pair[e + 1];
    for (const bool gate : {true, false}) {
      if (first < end) {
        const Weight& w = gate ? experts[e].w1 : experts[e].w3;
        cpu::Product& product = scratch_.products[count++];
        product = WithRows(MakeProduct(w, /*quantize=*/true), end - first);
        product.x = scratch_.activations.data();
        product.x_scales = scratch_.scales.data();
        product.rows_in = scratch_.pair_tokens.data() + first;
        product.out_bf16 = Bits((gate ? scratch_.gate : scratch_.up).data() + first * width);
        product.out_stride = width;
      }
    }
  }
  Multiply(scratch_.products.first(count));
}

void CpuBackend::MultiplyHidden(std::span<const ExpertWeights> experts, Matrix<Bf16> rows) {
  std::size_t count = 0;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::int32_t first = scratch_.first_pair[e];
    const std::int32_t end = scratch_.first_pair[e + 1];
    if (first < end) {
      cpu::Product& product = scratch_.products[count++];
      product = WithRows(MakeProduct(experts[e].w2, /*quantize=*/true), end - first);
      product.x = scratch_.hidden.data() + first * product.x_stride;
      product.x_scales = scratch_.hidden_scales.data() + first * product.scale_stride;
      product.rows_out = scratch_.pair_rows.data() + first;
      product.out_bf16 = Bits(rows.data);
      product.out_stride = rows.cols;
    }
  }
  Multiply(scratch_.products.first(count));
}

// Computes one tile of tokens.
void CpuBackend::ExpertTile(Matrix<const Bf16> x, const Routing& routing,
                            std::span<const ExpertWeights> experts, float clamp,
                            Matrix<Bf16> rows) {
  SortPairs(routing, std::ssize(experts));
  const cpu::ProductFormat format = MakeProduct(experts[0].w1, /*quantize=*/true).format;
  // If ranks share the experts and compute them in chunks, most tokens have no expert in a call.
  Prepare(format, x.data, x.cols, x.rows, x.cols, scratch_.activations.data(),
          scratch_.scales.data(), routing.ids);
  MultiplyInputs(experts);
  const std::int64_t width = experts[0].w1.n;
  const cpu::ProductFormat hidden_format = MakeProduct(experts[0].w2, /*quantize=*/true).format;
  const std::int32_t n_pairs = scratch_.first_pair[experts.size()];
  ForItems(n_pairs, width * kActivationWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      std::uint16_t* gate = Bits(scratch_.gate.data() + i * width);
      const float* weight = routing.weights.data + scratch_.pair_rows[static_cast<std::size_t>(i)];
      kernels_.swiglu(gate, Bits(scratch_.up.data() + i * width), clamp, weight, width, gate);
      kernels_.prepare(hidden_format, gate, width,
                       scratch_.hidden.data() + i * cpu::PreparedStride(width),
                       scratch_.hidden_scales.data() + i * (width / kFp8Block));
    }
  });
  MultiplyHidden(experts, rows);
}

void CpuBackend::Compute(const ExpertRowsOp& op) {
  const std::span<const ExpertWeights> experts = op.experts.experts;
  const std::int64_t k = op.routing.ids.cols;
  if (op.rows.rows == 0) return;
  if (experts.empty() || !op.experts.is_uniform) {
    return ReferenceBackend::Compute(op);
  }
  const std::int64_t width = experts[0].w1.n;
  Check(op.x.cols == experts[0].w1.k && width == experts[0].w2.k && op.rows.cols == experts[0].w2.n,
        "ExpertRows: shapes of the experts");
  const std::int64_t tile = std::min(TileRows(op.x.cols), std::ssize(scratch_.pair_rows) / k);
  Check(tile > 0 && std::ssize(experts) < std::ssize(scratch_.first_pair) &&
            tile * k * width <= std::ssize(scratch_.gate),
        "ExpertRows: more than Reserve announced");
  for (std::int64_t first = 0; first < op.x.rows; first += tile) {
    const std::int64_t t = std::min(tile, op.x.rows - first);
    ExpertTile(op.x.Rows(first, t),
               {op.routing.ids.Rows(first, t), op.routing.weights.Rows(first, t)}, experts,
               op.clamp, op.rows.Rows(first * k, t * k));
  }
}

void CpuBackend::Compute(const CombineExpertsOp& op) {
  const std::int64_t k = op.out.rows == 0 ? 0 : op.rows.rows / op.out.rows;
  ForItems(op.out.rows, k * op.out.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      kernels_.combine(Bits(op.rows.Row(row * k)), k, Bits(op.shared.Row(row)), op.out.cols,
                       Bits(op.out.Row(row)));
    }
  });
}

}  // namespace fathom
