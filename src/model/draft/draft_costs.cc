#include "model/draft/draft_costs.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/integer_math.h"
#include "model/draft/drafters.h"
#include "model/weight_pieces.h"
#include "model/weights.h"

namespace fathom::model {
namespace {

double Number(std::int64_t n) { return static_cast<double>(n); }

double SizeInBytes(const ModelWeights& weights, WalkedWeights which) {
  std::int64_t bytes = 0;
  for (const std::span<const std::byte> piece : WeightPieces(weights, which)) {
    bytes += std::ssize(piece);
  }
  return Number(bytes);
}

double SizeInBytes(const Weight& weight) {
  return Number(weight.n * weight.RowBytes() + std::ssize(weight.ScaleBytes()));
}

// Returns the routed experts of this process's layers; of all layers if they are not in memory.
double ExpertBytes(const ModelWeights& weights) {
  double here = 0;
  double all = 0;
  for (const BlockWeights& block : weights.layers) {
    for (const ExpertWeights& expert : block.ffn.experts) {
      const double bytes = SizeInBytes(expert.w1) + SizeInBytes(expert.w2) + SizeInBytes(expert.w3);
      all += bytes;
      here += expert.w1.data == nullptr ? 0 : bytes;
    }
  }
  return here > 0 ? here : all;
}

// Returns how many experts of a layer n_rows choose together, if they choose independently.
double Union(const DraftCosts& costs, std::int64_t n_rows) {
  const double missed = 1 - Number(costs.n_chosen) / Number(costs.n_experts);
  return Number(costs.n_experts) * (1 - std::pow(missed, Number(n_rows)));
}

}  // namespace

double DraftCosts::StepBytes(std::int64_t n_rows) const {
  return fixed + Number(n_layers) * expert * Union(*this, n_rows);
}

double DraftCosts::DraftBytes(std::int64_t n_sequences, std::int64_t n_drafts) const {
  const std::int64_t n_passes = DivideUp(n_drafts, drafts_per_pass);
  const double experts = Number(draft_layers) * expert * Union(*this, n_sequences * rows_per_pass);
  return Number(n_passes) * (draft_fixed + experts) + Number(n_drafts) * draft;
}

double DraftCosts::Ratio(std::int64_t n_sequences, std::int64_t n_drafts) const {
  if (!IsKnown()) return 1;
  return (StepBytes(n_sequences * (1 + n_drafts)) + DraftBytes(n_sequences, n_drafts)) /
         StepBytes(n_sequences);
}

DraftCosts ComputeDraftCosts(const ModelWeights& weights, const ModelConfig& config,
                             const DrafterKind* drafter) {
  if (drafter != nullptr && (!weights.draft || weights.draft->blocks.empty())) return {};
  double tables = 0;  // bytes of tables, of which a step reads some rows
  for (const BlockWeights& block : weights.layers) {
    tables += Number(block.ffn.TableBytes());
  }
  const std::int64_t n_layers = std::ssize(weights.layers);
  DraftCosts costs = {.fixed = SizeInBytes(weights, WalkedWeights::kDense) - tables,
                      .expert = ExpertBytes(weights) / Number(n_layers * config.n_routed_experts),
                      .n_layers = n_layers,
                      .n_experts = config.n_routed_experts,
                      .n_chosen = config.num_experts_per_tok};
  if (drafter == nullptr) return costs;
  const DraftSizes sizes = drafter->sizes(config);
  costs.draft_fixed = SizeInBytes(weights, WalkedWeights::kDraft) - Number(sizes.unread_bytes) +
                      SizeInBytes(weights.head);
  costs.draft = Number(sizes.bytes_per_draft);
  costs.draft_layers = std::ssize(weights.draft->blocks);
  costs.rows_per_pass = std::max<std::int64_t>(sizes.max_block, 1);
  costs.drafts_per_pass = std::max<std::int64_t>(sizes.max_block, 1);
  return costs;
}

}  // namespace fathom::model
