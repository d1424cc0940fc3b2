#include "engine/draft_options.h"

#include <algorithm>

#include "engine/prompt_lookup.h"

namespace fathom::engine {

std::int64_t MostLookedUp(const ModelLimits& limits) {
  return std::max<std::int64_t>(
      std::min({kMostLookups, limits.rollback_tokens, limits.max_logit_rows - 1}), 0);
}

std::int64_t MostDrafted(const DraftOptions& options, const ModelLimits& limits) {
  return std::max(options.enabled ? limits.max_draft_depth : 0,
                  options.lookups ? MostLookedUp(limits) : 0);
}

Status CheckDrafts(const DraftOptions& options, const ModelLimits& limits) {
  const auto check = [](const char* name, std::int64_t depth, std::int64_t most) {
    if (depth >= 0 && depth <= most) return Status();
    return Status(MakeError(ErrorCode::kInvalidArgument, "{}: expected 0 to {}, found {}", name,
                            most, depth));
  };
  if (options.enabled && limits.max_draft_depth == 0) {
    return MakeError(ErrorCode::kUnsupported, "drafts: the model was loaded without a draft head");
  }
  if (options.enabled) {
    if (Status valid = check("draft depth", options.depth, limits.max_draft_depth); !valid) {
      return valid;
    }
  }
  return options.lookups ? check("lookup depth", options.lookup_depth, MostLookedUp(limits))
                         : Status();
}

}  // namespace fathom::engine
