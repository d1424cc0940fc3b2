// DraftOptions: chooses which tokens are drafted, and how many.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "model/language_model.h"

namespace fathom::engine {

// The number of tokens that are drafted after every verified token (docs/spec/mtp.md).
struct DraftOptions {
  bool enabled = false;  // drafts of the checkpoint's draft head
  // 1 to the depth of the drafter: always this many; 0: as many as pay, by measurement.
  std::int64_t depth = 0;
  bool lookups = false;  // drafts looked up in the text of the sequence (prompt_lookup.h)
  // 1 to MostLookedUp: always this many, where the text repeats; 0: as many as pay.
  std::int64_t lookup_depth = 0;
  // The share of drafts that are taken to be right (SimulatedAcceptance); missing: they are
  // verified.
  std::optional<double> acceptance{};
};

// Returns the most tokens that one lookup can draft for a sequence of this model.
std::int64_t MostLookedUp(const ModelLimits& limits);
// Returns the most drafted tokens that a step verifies for one sequence.
std::int64_t MostDrafted(const DraftOptions& options, const ModelLimits& limits);
// Errors: drafts without a draft head; a depth that the model cannot verify.
Status CheckDrafts(const DraftOptions& options, const ModelLimits& limits);

}  // namespace fathom::engine
