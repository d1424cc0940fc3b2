// Mixture of experts: routing, and the products of each expert with the tokens that chose it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace fathom::kernels {
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

struct CpuBackend::ExpertOperations {
  CpuBackend& self;

  void Compute(const RouteOp& op) {
    const auto n_experts = static_cast<std::size_t>(op.logits.cols);
    const auto choose = [&](std::int64_t first, std::int64_t end, int worker) {
      const std::span<float> piece =
          Piece(self.scratch_.expert_scores, worker, self.team_.n_threads());
      Check(2 * n_experts <= piece.size(), "Route: more experts than Reserve announced");
      const std::span<float> scores = piece.first(n_experts);
      const std::span<float> choice = piece.subspan(n_experts, n_experts);
      for (std::int64_t row = first; row < end; ++row) {
        self.kernels_.router_scores(op.logits.Row(row), op.logits.cols, scores.data());
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
    self.ForItems(op.logits.rows, op.logits.cols * kActivationWork, choose);
  }

  // Sorts the tile's (token, slot) pairs by expert (counting sort), without remote experts.
  void SortPairs(const Routing& routing, std::int64_t n_experts) {
    const std::int64_t pairs = routing.ids.rows * routing.ids.cols;
    const std::span<std::int32_t> first =
        self.scratch_.first_pair.first(static_cast<std::size_t>(n_experts + 1));
    std::fill(first.begin(), first.end(), 0);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int32_t id = routing.ids.data[i];
      if (id >= 0 && id < n_experts) {
        ++first[static_cast<std::size_t>(id) + 1];
      } else if (id != kRemoteExpert) {
        self.fault_.Set(Fault::kUnknownExpert, i / routing.ids.cols);
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
      self.scratch_.pair_rows[at] = static_cast<std::int32_t>(i);
      self.scratch_.pair_tokens[at] = static_cast<std::int32_t>(i / routing.ids.cols);
    }
    std::copy_backward(first.begin(), first.end() - 1, first.end());
    first[0] = 0;
  }

  // The gate and up rows of all experts are one loop, so that all threads are busy even with one
  // token.
  void MultiplyInputs(std::span<const ExpertWeights> experts) {
    const std::int64_t width = experts[0].w1.n;
    std::size_t count = 0;
    for (std::size_t e = 0; e < experts.size(); ++e) {
      const std::int32_t first = self.scratch_.first_pair[e];
      const std::int32_t end = self.scratch_.first_pair[e + 1];
      for (const bool gate : {true, false}) {
        if (first < end) {
          const Weight& w = gate ? experts[e].w1 : experts[e].w3;
          cpu::Product& product = self.scratch_.products[count++];
          product = WithRows(MakeProduct(w, /*quantize=*/true), end - first);
          product.x = self.scratch_.activations.data();
          product.x_scales = self.scratch_.scales.data();
          product.rows_in = self.scratch_.pair_tokens.data() + first;
          product.out_bf16 =
              Bits((gate ? self.scratch_.gate : self.scratch_.up).data() + first * width);
          product.out_stride = width;
        }
      }
    }
    self.Multiply(self.scratch_.products.first(count));
  }

  void MultiplyHidden(std::span<const ExpertWeights> experts, Matrix<Bf16> rows) {
    std::size_t count = 0;
    for (std::size_t e = 0; e < experts.size(); ++e) {
      const std::int32_t first = self.scratch_.first_pair[e];
      const std::int32_t end = self.scratch_.first_pair[e + 1];
      if (first < end) {
        cpu::Product& product = self.scratch_.products[count++];
        product = WithRows(MakeProduct(experts[e].w2, /*quantize=*/true), end - first);
        product.x = self.scratch_.hidden.data() + first * product.x_stride;
        product.x_scales = self.scratch_.hidden_scales.data() + first * product.scale_stride;
        product.rows_out = self.scratch_.pair_rows.data() + first;
        product.out_bf16 = Bits(rows.data);
        product.out_stride = rows.cols;
      }
    }
    self.Multiply(self.scratch_.products.first(count));
  }

  // Computes one tile of tokens.
  void ExpertTile(Matrix<const Bf16> x, const Routing& routing,
                  std::span<const ExpertWeights> experts, float clamp, Matrix<Bf16> rows) {
    SortPairs(routing, std::ssize(experts));
    const cpu::ProductFormat format = MakeProduct(experts[0].w1, /*quantize=*/true).format;
    // If ranks share the experts and compute them in chunks, most tokens have no expert in a call.
    self.Prepare(format, x.data, x.cols, x.rows, x.cols, self.scratch_.activations.data(),
                 self.scratch_.scales.data(), routing.ids);
    MultiplyInputs(experts);
    const std::int64_t width = experts[0].w1.n;
    const cpu::ProductFormat hidden_format = MakeProduct(experts[0].w2, /*quantize=*/true).format;
    const std::int32_t n_pairs = self.scratch_.first_pair[experts.size()];
    self.ForEach(n_pairs, width * kActivationWork, [&](std::int64_t i) {
      std::uint16_t* gate = Bits(self.scratch_.gate.data() + i * width);
      const float* weight =
          routing.weights.data + self.scratch_.pair_rows[static_cast<std::size_t>(i)];
      self.kernels_.swiglu(gate, Bits(self.scratch_.up.data() + i * width), clamp, weight, width,
                           gate);
      self.kernels_.prepare(hidden_format, gate, width,
                            self.scratch_.hidden.data() + i * cpu::PreparedStride(width),
                            self.scratch_.hidden_scales.data() + i * (width / kFp8Block));
    });
    MultiplyHidden(experts, rows);
  }

  void Compute(const ExpertRowsOp& op) {
    const std::span<const ExpertWeights> experts = op.experts.experts;
    const std::int64_t k = op.routing.ids.cols;
    if (op.rows.rows == 0) return;
    if (experts.empty() || !op.experts.is_uniform) {
      return self.ReferenceBackend::Compute(op);
    }
    const std::int64_t width = experts[0].w1.n;
    Check(
        op.x.cols == experts[0].w1.k && width == experts[0].w2.k && op.rows.cols == experts[0].w2.n,
        "ExpertRows: shapes of the experts");
    const std::int64_t tile =
        std::min(self.TileRows(op.x.cols), std::ssize(self.scratch_.pair_rows) / k);
    Check(tile > 0 && std::ssize(experts) < std::ssize(self.scratch_.first_pair) &&
              tile * k * width <= std::ssize(self.scratch_.gate),
          "ExpertRows: more than Reserve announced");
    for (std::int64_t first = 0; first < op.x.rows; first += tile) {
      const std::int64_t t = std::min(tile, op.x.rows - first);
      ExpertTile(op.x.Rows(first, t),
                 {op.routing.ids.Rows(first, t), op.routing.weights.Rows(first, t)}, experts,
                 op.clamp, op.rows.Rows(first * k, t * k));
    }
  }

  void Compute(const CombineExpertsOp& op) {
    const std::int64_t k = op.out.rows == 0 ? 0 : op.rows.rows / op.out.rows;
    self.ForEach(op.out.rows, k * op.out.cols * kElementWork, [&](std::int64_t row) {
      self.kernels_.combine(Bits(op.rows.Row(row * k)), k, Bits(op.shared.Row(row)), op.out.cols,
                            Bits(op.out.Row(row)));
    });
  }
};

bool CpuBackend::ComputeExpert(const Operation& operation) {
  return ComputeBy(ExpertOperations{*this}, operation);
}

}  // namespace fathom::kernels
