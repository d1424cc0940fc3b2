#include "model/draft/drafters.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/draft/dspark.h"
#include "model/draft/mtp.h"

namespace fathom {
namespace {

// A new drafter is a file of its own and a line here.
constexpr std::array kDrafters = {
    &kMtpDrafter,
    &kDSparkDrafter,
};

template <class Accept>
const DrafterKind* FindIf(const Accept& accept) {
  const auto found =
      std::ranges::find_if(kDrafters, [&](const auto* kind) { return accept(*kind); });
  return found == kDrafters.end() ? nullptr : *found;
}

}  // namespace

const DrafterKind* FindDrafter(HeadKind head) {
  return FindIf([&](const DrafterKind& kind) { return kind.head == head; });
}

const DrafterKind* AnnouncedDrafter(const ModelConfig& config) {
  return FindIf([&](const DrafterKind& kind) { return kind.is_announced(config); });
}

const DrafterKind* FindDrafter(const Checkpoint& checkpoint, ModelConfig& config) {
  const Result<DraftHead> head = FindDraftHead(checkpoint);
  return head && AdoptHead(*head, config) ? FindDrafter(head->kind) : nullptr;
}

std::int64_t NumBlocks(const ModelConfig& config) {
  const DrafterKind* drafter = AnnouncedDrafter(config);
  const std::int64_t n_draft = drafter == nullptr ? 1 : std::ssize(drafter->sizes(config).ratios);
  return config.num_hidden_layers + n_draft;
}

int GreatestDraftDepth() {
  int depth = 0;
  for (const DrafterKind* kind : kDrafters) {
    depth = std::max(depth, kind->max_depth);
  }
  return depth;
}

std::string DescribeDraftHeads() {
  std::string text;
  for (const DrafterKind* kind : kDrafters) {
    text += (text.empty() ? "" : " or ");
    text += kind->description;
  }
  return text;
}

}  // namespace fathom
