#include "model/draft/head_choice.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace fathom {

Result<DraftHead> ChooseHead(const Checkpoint& checkpoint, const ModelConfig& config,
                             bool with_draft, std::vector<std::string>& warnings) {
  Result<DraftHead> head = FindDraftHead(checkpoint);
  if (!head) {
    return head;
  }
  if (std::optional<std::string> warning =
          ExpertFormatWarning(config, FindExpertFormats(checkpoint))) {
    warnings.push_back(std::move(*warning));
  }
  if (head->kind == HeadKind::kDSpark) {
    warnings.push_back(fmt::format(
        "this checkpoint has a DSpark drafter of {} stages, which is not used yet; the main model "
        "runs without it",
        head->n_stages));
  }
  if (with_draft && !head->IsSupported()) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: expected an MTP head (mtp.0.e_proj.weight and others), found {}",
                     checkpoint.path().string(),
                     head->kind == HeadKind::kNone ? "no mtp.* tensors" : "a DSpark drafter");
  }
  return head;
}

}  // namespace fathom
