// The table of drafters: one entry for each kind of draft head. The only place that knows the
// kinds: all others ask the entry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/draft/draft_tensors.h"

namespace fathom {

class Checkpoint;
class Drafter;
struct ModelConfig;
struct ModelState;

// The sizes that a drafter has beside those of the layers.
struct DraftSizes {
  // Caches.
  std::vector<int> ratios;          // of its blocks
  bool keys_follow_tokens = false;  // the key of a position depends on the token behind it
  std::int64_t stream_bytes = 0;    // of what is kept of a position: KeptStream (kv_cache)
  std::int64_t deferred_bytes = 0;  // of what is kept of a sequence: SequenceCache::Deferred
  // Columns of the workspace: Activations::draft_input, and draft_embeddings. A drafter without
  // embeddings keeps no logits.
  std::int64_t input_columns = 0;
  std::int64_t embedding_columns = 0;
  // Limits of the operations: StepLimits.
  std::int64_t max_linear_inputs = 0;
  std::int64_t max_block = 0;
  // For DraftCosts: bytes of its weights that a pass does not read whole, and those that every
  // draft reads once more.
  std::int64_t unread_bytes = 0;
  std::int64_t bytes_per_draft = 0;
};

// A kind of draft head and the drafter that uses it. A head is a number of stages, each a block
// with experts: their tensors have names of a prefix, a number and a dot.
struct DrafterKind {
  std::string_view name;         // of the head: "MTP"
  std::string_view option;       // its name on the command line
  std::string_view description;  // of the head and its tensors, for errors: "an ... head (...)"
  std::string_view prefix;       // of its tensors, before the number of the stage
  std::string_view mark;         // the tensor that a checkpoint has with this head alone
  int max_depth = 0;             // the greatest Drafter::max_depth of any checkpoint
  // Drafter::max_depth of a checkpoint.
  int (*depth)(const ModelConfig& config) = nullptr;
  // The first layer whose streams the drafter reads: all must be of one stage.
  std::int64_t (*first_layer)(const ModelConfig& config) = nullptr;
  // Whether a configuration announces such a head. The tensors decide (FindDraftHead); without a
  // checkpoint the configuration is all there is.
  bool (*is_announced)(const ModelConfig& config) = nullptr;
  // Sets what the configuration of a published model with such a head says.
  void (*announce)(ModelConfig& config) = nullptr;
  // Sets what the tensors of a checkpoint say. Error: the configuration lacks numbers of the head.
  Status (*adopt)(int n_stages, ModelConfig& config) = nullptr;
  std::vector<DraftTensor> (*tensors)(const ModelConfig& config) = nullptr;
  DraftSizes (*sizes)(const ModelConfig& config) = nullptr;
  // The drafter of a model that was loaded with these weights and caches, and outlives it.
  std::unique_ptr<Drafter> (*make)(ModelState& model) = nullptr;
};

// All kinds; they live as long as the program.
std::span<const DrafterKind* const> Drafters();

// The draft head of a checkpoint, as its tensors show it (docs/spec/mtp.md 0).
struct DraftHead {
  const DrafterKind* kind = nullptr;  // null: none
  int n_stages = 0;

  std::string_view name() const { return kind == nullptr ? "none" : kind->name; }
};

// Returns true if a tensor of this name belongs to a draft head of any kind.
bool IsDraftTensor(std::string_view name);

// Errors: tensors of several heads, or of a head without its mark; stages with a gap. Copies of the
// embedding and the output head alone are no draft head.
Result<DraftHead> FindDraftHead(const Checkpoint& checkpoint);
// Also sets in the configuration what the tensors say. Errors: those of DrafterKind::adopt, too.
Result<DraftHead> AdoptDraftHead(const Checkpoint& checkpoint, ModelConfig& config);

// The drafter of the head that the configuration announces; nullptr: none.
const DrafterKind* AnnouncedDrafter(const ModelConfig& config);
// The drafter of AdoptDraftHead. nullptr also where it fails, which Model::Load refuses.
const DrafterKind* FindDrafter(const Checkpoint& checkpoint, ModelConfig& config);

// Number of blocks with experts: the layers and those of the announced drafter. A model without
// drafter counts one, so that a placement of experts fits a model with and without its MTP head.
std::int64_t NumBlocks(const ModelConfig& config);

// The greatest depth of any drafter.
int GreatestDraftDepth();
// "an A head (...) or a B head (...)": all heads of the table.
std::string DescribeDraftHeads();

}  // namespace fathom
