#include "model/draft/drafters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>

#include "base/parse_text.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "model/draft/dspark.h"
#include "model/draft/mtp.h"

namespace fathom::model {
namespace {

// A new drafter is a file of its own and a line here.
constexpr std::array kDrafters = {
    &kMtpDrafter,
    &kDSparkDrafter,
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Finds copies of the embedding or the output head in the draft head: names with "emb" or ending in
// "head.weight", except names of the Markov, confidence or hyper-connection head.
bool IsUnusedCopy(std::string_view name) {
  for (const std::string_view used : {"markov_head", "confidence_head", "hc_head"}) {
    if (Contains(name, used)) return false;
  }
  return Contains(name, "emb") || name.ends_with("head.weight");
}

// Returns the stages of the tensors whose names begin with a prefix.
std::set<unsigned> FindStages(const Checkpoint& checkpoint, std::string_view prefix) {
  std::set<unsigned> stages;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    std::string_view name = tensor.name;
    if (!TakePrefix(name, prefix) || IsUnusedCopy(name)) continue;
    if (const std::optional<unsigned> stage = TakeNumber<unsigned>(name)) stages.insert(*stage);
  }
  return stages;
}

// Returns the marks of some kinds: "A (kind) or B (kind)".
std::string Marks(std::span<const DrafterKind* const> kinds, std::string_view separator) {
  std::string text;
  for (const DrafterKind* kind : kinds) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : separator, kind->mark, kind->name);
  }
  return text;
}

}  // namespace

std::span<const DrafterKind* const> Drafters() { return kDrafters; }

bool IsDraftTensor(std::string_view name) {
  return std::ranges::any_of(
      kDrafters, [&](const DrafterKind* kind) { return name.starts_with(kind->prefix); });
}

Result<DraftHead> FindDraftHead(const Checkpoint& checkpoint) {
  const std::string where = checkpoint.path().string();
  std::vector<const DrafterKind*> found;
  std::ranges::copy_if(kDrafters, std::back_inserter(found), [&](const DrafterKind* kind) {
    return checkpoint.Find(kind->mark) != nullptr;
  });
  if (found.size() > 1) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected one draft head, found tensors of several: {}", where,
                     Marks(found, " and "));
  }
  if (found.empty()) {
    for (const DrafterKind* kind : kDrafters) {
      if (FindStages(checkpoint, kind->prefix).empty()) continue;
      return MakeError(ErrorCode::kInvalidData,
                       "{}: there are {}* tensors, but not the one that shows their kind: {}",
                       where, kind->prefix, Marks(kDrafters, " or "));
    }
    return DraftHead{};
  }
  const DrafterKind& kind = *found.front();
  const std::set<unsigned> stages = FindStages(checkpoint, kind.prefix);
  const std::size_t n_stages = stages.size();
  if (*stages.rbegin() != n_stages - 1) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected {} draft stages {}0 to {}{}, found {}{}", where, n_stages,
                     kind.prefix, kind.prefix, n_stages - 1, kind.prefix, *stages.rbegin());
  }
  return DraftHead{&kind, static_cast<int>(n_stages)};
}

Result<DraftHead> AdoptDraftHead(const Checkpoint& checkpoint, ModelConfig& config) {
  Result<DraftHead> head = FindDraftHead(checkpoint);
  if (!head || head->kind == nullptr) return head;
  if (Status known = head->kind->adopt(head->n_stages, config); !known) {
    return Unexpected(known.error());
  }
  return head;
}

const DrafterKind* AnnouncedDrafter(const ModelConfig& config) {
  const auto found = std::ranges::find_if(
      kDrafters, [&](const DrafterKind* kind) { return kind->is_announced(config); });
  return found == kDrafters.end() ? nullptr : *found;
}

const DrafterKind* FindDrafter(const Checkpoint& checkpoint, ModelConfig& config) {
  const Result<DraftHead> head = AdoptDraftHead(checkpoint, config);
  return head ? head->kind : nullptr;
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

}  // namespace fathom::model
