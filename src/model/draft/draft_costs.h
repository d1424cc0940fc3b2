// DraftCosts: what drafts cost and save, from the bytes that a step reads (docs/drafts.md): the
// time of a step is that of reading its weights, each once, and the routed experts that any row
// chooses.
//
//   union(R)    = E (1 - (1 - c / E)^R)       experts of a layer that R rows reach, c of E each
//   step(R)     = fixed + layers expert union(R)
//   draft(n, k) = passes (draft_fixed + draft_layers expert union(n rows_per_pass)) + k draft
//   ratio(n, k) = (step(n (1 + k)) + draft(n, k)) / step(n)
//
// An estimate for as long as nothing has been measured. Where computing takes longer than reading,
// verified rows cost more than this.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"

namespace fathom {

struct DrafterKind;
struct ModelWeights;

struct DraftCosts {
  double fixed = 0;  // bytes that every step reads; 0: nothing is known
  // Bytes of a routed expert, or of this process's average share of one; more of them where reading
  // them takes longer (Model::SetExpertTime).
  double expert = 0;
  std::int64_t n_layers = 0;
  std::int64_t n_experts = 1;  // of a layer
  std::int64_t n_chosen = 1;   // by a row
  // The drafter:
  double draft_fixed = 0;  // bytes of a pass, with the head of the model
  double draft = 0;        // further bytes of every draft
  std::int64_t draft_layers = 0;
  std::int64_t rows_per_pass = 1;    // of a sequence
  std::int64_t drafts_per_pass = 1;  // at most

  bool IsKnown() const { return fixed > 0; }
  // The bytes of a step of n_rows, and of drafting n_drafts tokens for each of n_sequences.
  double StepBytes(std::int64_t n_rows) const;
  double DraftBytes(std::int64_t n_sequences, std::int64_t n_drafts) const;
  // The time of a step that verifies and drafts n_drafts tokens for each of n_sequences, in units
  // of a step without drafts; 1 if nothing is known.
  double Ratio(std::int64_t n_sequences, std::int64_t n_drafts) const;
};

// Weighs bound weights, those of this process; without a drafter (null) those of the model alone.
// Unknown where another process has the drafter.
DraftCosts ComputeDraftCosts(const ModelWeights& weights, const ModelConfig& config,
                             const DrafterKind* drafter);

}  // namespace fathom
