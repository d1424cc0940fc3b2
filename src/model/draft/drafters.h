// The table of drafters: one entry for each kind of draft head. The only place that knows the
// kinds: all other code uses the entry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::checkpoint {
class Checkpoint;
struct ModelConfig;
}  // namespace fathom::checkpoint

namespace fathom::model {

class Drafter;
struct ModelState;
struct ModelTensor;

// The sizes of a drafter beside the sizes of its layers.
struct DraftSizes {
  // Caches.
  std::vector<int> ratios;          // ratios of its blocks
  bool keys_follow_tokens = false;  // the key of a position depends on the next token
  std::int64_t stream_bytes = 0;    // bytes stored per position: KeptStream (kv_cache)
  std::int64_t deferred_bytes = 0;  // bytes stored per sequence: SequenceCache::Deferred
  // Columns in the workspace of Activations::draft_input and draft_embeddings. A drafter without
  // embeddings stores no logits.
  std::int64_t input_columns = 0;
  std::int64_t embedding_columns = 0;
  // Limits of the operations: StepLimits.
  std::int64_t max_linear_inputs = 0;
  std::int64_t max_block = 0;
  // For DraftCosts: bytes of its weights that a pass does not read whole, and bytes that every
  // draft reads once more.
  std::int64_t unread_bytes = 0;
  std::int64_t bytes_per_draft = 0;
};

// A kind of draft head and the drafter that uses it. A head is a number of stages, each a block
// with experts: the names of their tensors begin with a prefix, a number and a dot.
struct DrafterKind {
  std::string_view name;         // name of the head: "MTP"
  std::string_view option;       // its name on the command line
  std::string_view description;  // the head and its tensors, for errors: "an ... head (...)"
  std::string_view prefix;       // prefix of its tensors, before the number of the stage
  std::string_view mark;         // the tensor that only checkpoints with this head have
  int max_depth = 0;             // the greatest Drafter::max_depth of any checkpoint
  // Returns Drafter::max_depth of a checkpoint.
  int (*depth)(const ModelConfig& config) = nullptr;
  // Returns the first layer whose streams the drafter reads: all must be in one stage.
  std::int64_t (*first_layer)(const ModelConfig& config) = nullptr;
  // Returns true if a configuration announces such a head. The tensors decide (FindDraftHead); the
  // configuration is used where there is no checkpoint.
  bool (*is_announced)(const ModelConfig& config) = nullptr;
  // Sets the fields that the configuration of a published model with such a head has.
  void (*announce)(ModelConfig& config) = nullptr;
  // Sets the fields that the tensors of a checkpoint imply. Error: the configuration lacks numbers
  // of the head.
  Status (*adopt)(int n_stages, ModelConfig& config) = nullptr;
  // Returns its tensors that are neither in its blocks nor the gates before the head of its last
  // stage. Rows by kVocabulary are the rows of the tokens whose rows of the head a rank has.
  std::vector<ModelTensor> (*tensors)(const ModelConfig& config) = nullptr;
  DraftSizes (*sizes)(const ModelConfig& config) = nullptr;
  // Makes the drafter of a loaded model, which has these weights and caches and must outlive it.
  std::unique_ptr<Drafter> (*make)(ModelState& model) = nullptr;
};

// Returns all kinds; they live as long as the program.
std::span<const DrafterKind* const> Drafters();

// The draft head of a checkpoint, as its tensors show it (docs/spec/mtp.md 0).
struct DraftHead {
  const DrafterKind* kind = nullptr;  // null: none
  int n_stages = 0;

  std::string_view name() const { return kind == nullptr ? "none" : kind->name; }
};

// Returns true if a tensor of this name belongs to a draft head of any kind.
bool IsDraftTensor(std::string_view name);

// Errors: tensors of several heads, or of a head without its mark; gaps between stages. Copies of
// the embedding and the output head alone do not make a draft head.
Result<DraftHead> FindDraftHead(const Checkpoint& checkpoint);
// Also sets the fields of the configuration that the tensors imply. Further errors:
// DrafterKind::adopt.
Result<DraftHead> AdoptDraftHead(const Checkpoint& checkpoint, ModelConfig& config);

// Returns the drafter of the head that the configuration announces; nullptr: none.
const DrafterKind* AnnouncedDrafter(const ModelConfig& config);
// Returns the drafter of AdoptDraftHead. nullptr also where that fails, which Model::Load reports.
const DrafterKind* FindDrafter(const Checkpoint& checkpoint, ModelConfig& config);

// Returns the number of blocks with experts: the layers and the blocks of the announced drafter. A
// model without drafter counts one block more than its layers, so that a placement of experts fits
// a model with and without its MTP head.
std::int64_t NumBlocks(const ModelConfig& config);

// Returns the greatest depth of any drafter.
int GreatestDraftDepth();
// Returns "an A head (...) or a B head (...)": all heads of the table.
std::string DescribeDraftHeads();

}  // namespace fathom::model
