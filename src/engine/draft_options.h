// DraftOptions: which tokens are drafted, and how many.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/language_model.h"

namespace fathom {

// The number of tokens that are drafted ahead of every verified one (docs/spec/mtp.md).
struct DraftOptions {
  bool enabled = false;  // by the head of the checkpoint
  // 1 to the depth of the drafter: always this many; 0: as many as measurement shows to pay.
  std::int64_t depth = 0;
  bool lookups = false;  // from the text of the sequence (prompt_lookup.h)
  // 1 to MostLookedUp: always this many, where the text repeats; 0: as many as pay.
  std::int64_t lookup_depth = 0;
};

// The most tokens that can be looked up at once for a sequence of this model.
std::int64_t MostLookedUp(const ModelLimits& limits);
// The most tokens that a step verifies of a sequence beside the one that was chosen.
std::int64_t MostDrafted(const DraftOptions& options, const ModelLimits& limits);
// Errors: drafts without a draft head; a depth that the model cannot verify.
Status CheckDrafts(const DraftOptions& options, const ModelLimits& limits);

}  // namespace fathom
