// DraftCosts: estimates the cost and the gain of drafts from the bytes that a step reads
// (docs/drafts.md): a step takes the time of reading its weights, each once, including the routed
// experts that any row chooses.
//
//   union(R)    = E (1 - (1 - c / E)^R)       experts that R rows reach; each row chooses c of E
//   step(R)     = fixed + layers expert union(R)
//   draft(n, k) = passes (draft_fixed + draft_layers expert union(n rows_per_pass)) + k draft
//   ratio(n, k) = (step(n (1 + k)) + draft(n, k)) / step(n)
//
// The estimate is used until times have been measured. Where computing takes longer than reading,
// verified rows cost more than this.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"

namespace fathom::model {

struct DrafterKind;
struct ModelWeights;

struct DraftCosts {
  double fixed = 0;  // bytes that every step reads; 0: the costs are unknown
  // Bytes of a routed expert, or of this process's average share of one; scaled up where reading
  // experts takes longer (Model::SetExpertTime).
  double expert = 0;
  std::int64_t n_layers = 0;
  std::int64_t n_experts = 1;  // experts in a layer
  std::int64_t n_chosen = 1;   // experts that a row chooses
  // The drafter:
  double draft_fixed = 0;  // bytes of a pass, with the head of the model
  double draft = 0;        // further bytes of every draft
  std::int64_t draft_layers = 0;
  std::int64_t rows_per_pass = 1;    // rows per sequence
  std::int64_t drafts_per_pass = 1;  // the most drafts of a pass

  bool IsKnown() const { return fixed > 0; }
  // Returns the bytes of a step of n_rows, and of drafting n_drafts tokens for each of n_sequences.
  double StepBytes(std::int64_t n_rows) const;
  double DraftBytes(std::int64_t n_sequences, std::int64_t n_drafts) const;
  // Returns the time of a step that verifies and drafts n_drafts tokens for each of n_sequences, in
  // units of a step without drafts; 1 if the costs are unknown.
  double Ratio(std::int64_t n_sequences, std::int64_t n_drafts) const;
};

// Computes the costs from the bound weights of this process; without a drafter (null), from the
// weights of the model alone. The costs are unknown where another process has the drafter.
DraftCosts ComputeDraftCosts(const ModelWeights& weights, const ModelConfig& config,
                             const DrafterKind* drafter);

}  // namespace fathom::model
