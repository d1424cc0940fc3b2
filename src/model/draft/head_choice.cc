#include "model/draft/head_choice.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "model/draft/drafters.h"

namespace fathom {

Result<DraftHead> ChooseHead(const Checkpoint& checkpoint, const ModelConfig& config,
                             bool with_draft, std::vector<std::string>& warnings) {
  Result<DraftHead> head = FindDraftHead(checkpoint);
  if (!head) return head;
  if (std::optional<std::string> warning =
          ExpertFormatWarning(config, FindExpertFormats(checkpoint))) {
    warnings.push_back(std::move(*warning));
  }
  const bool is_supported = FindDrafter(head->kind) != nullptr;
  if (with_draft && !is_supported) {
    return MakeError(ErrorCode::kUnsupported, "{}: expected {}, found {}",
                     checkpoint.path().string(), DescribeDraftHeads(),
                     head->kind == HeadKind::kNone ? "no mtp.* tensors"
                                                   : fmt::format("a {} drafter", Name(head->kind)));
  }
  return head;
}

}  // namespace fathom
