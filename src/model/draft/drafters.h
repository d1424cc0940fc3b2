// The table of drafters: one entry for each kind of draft head that the model can draft with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/head_kind.h"

namespace fathom {

class Checkpoint;
class Drafter;
class WeightScope;
struct DraftWeights;
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

struct DrafterKind {
  HeadKind head = HeadKind::kNone;
  std::string_view description;  // of the head and its tensors, for errors: "an ... head (...)"
  int max_depth = 0;             // the greatest Drafter::max_depth of any checkpoint
  // Drafter::max_depth of a checkpoint.
  int (*depth)(const ModelConfig& config) = nullptr;
  // The first layer whose streams the drafter reads: all must be of one stage.
  std::int64_t (*first_layer)(const ModelConfig& config) = nullptr;
  // Whether a configuration announces such a head. The tensors decide (FindDraftHead); without a
  // checkpoint the configuration is all there is.
  bool (*is_announced)(const ModelConfig& config) = nullptr;
  // Binds the weights; root: the scope of the whole checkpoint.
  DraftWeights (*bind)(const WeightScope& root, const ModelConfig& config) = nullptr;
  DraftSizes (*sizes)(const ModelConfig& config) = nullptr;
  // The drafter of a model that was loaded with these weights and caches, and outlives it.
  std::unique_ptr<Drafter> (*make)(ModelState& model) = nullptr;
};

// Entries of the table; they live as long as the program. nullptr: no drafter for this head, or for
// the head that the configuration announces.
const DrafterKind* FindDrafter(HeadKind head);
const DrafterKind* AnnouncedDrafter(const ModelConfig& config);
// The drafter of a checkpoint; sets in its configuration what the tensors say. nullptr also where
// they contradict each other, which Model::Load refuses.
const DrafterKind* FindDrafter(const Checkpoint& checkpoint, ModelConfig& config);

// Number of blocks with experts: the layers and those of the announced drafter. A model without
// drafter counts one, so that a placement of experts fits a model with and without its MTP head.
std::int64_t NumBlocks(const ModelConfig& config);

// The greatest depth of any drafter.
int GreatestDraftDepth();
// "an A head (...) or a B head (...)": all heads of the table.
std::string DescribeDraftHeads();

}  // namespace fathom
