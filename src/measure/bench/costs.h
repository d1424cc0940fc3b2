// ModelCosts: the bytes that a step must read and the operations it must compute, from the
// configuration alone. Implements the formulas of docs/spec/flops_bytes.md for any sizes and
// formats.
//
// Bytes: every weight that a step needs counts once, however many tokens share it; routed experts
// once per different expert; of the embedding and of the table of hash layers only the rows of the
// tokens; cached rows once per query that sees them. Operations: two per multiply-add that the
// result requires; element-wise work is not counted except for the indexer's scores, which count
// only if there are more rows than it chooses.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "model/draft/drafters.h"
#include "model/model_tensors.h"

namespace fathom::measure::bench {

using Component = ModelTensor::Component;
inline constexpr std::size_t kComponents = 8;

struct Cost {
  double bytes = 0;
  double flops = 0;  // operations for one token

  Cost& operator+=(const Cost& other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
};
using Costs = std::array<Cost, kComponents>;
Cost Sum(const Costs& costs);

// The storage formats that differ between checkpoints.
struct StoredFormats {
  bool fp4_experts = true;
  std::int64_t scale_bytes = 1;         // FP8 matrices other than experts: 1 (E8M0), 4 (F32)
  std::int64_t expert_scale_bytes = 1;  // FP8 experts
  bool bf16_groups = false;             // GroupedLinear of attention
};
// Reads the formats from the tensors of the first layer.
StoredFormats FindStoredFormats(const Checkpoint& checkpoint);

// The costs of one layer.
struct LayerCosts {
  int ratio = 0;
  Costs dense;             // all but the routed experts
  Cost by_heads;           // kAttention: the matrices that tensor ranks share by heads
  Cost by_tokens;          // kIndexer: queries, which tensor ranks share by tokens like the scores
  Cost expert;             // one routed expert
  double table_bytes = 0;  // experts of hash layers: the whole table, and the row of one token
  double table_row_bytes = 0;
};

// Bytes of one cached row of each kind.
struct CachedRowBytes {
  double window = 0;
  double compressed = 0;
  double index = 0;
};

// The cost of reading cached rows and computing with them, in one layer.
struct AttentionCost {
  Cost core;     // scores and values of all heads
  Cost indexer;  // the choice of rows in layers of ratio 4
};

// The costs of a drafter, without embedding and logits.
struct DraftCosts {
  LayerCosts block;  // each of n_blocks
  std::int64_t n_blocks = 1;
  Cost rest;           // projections, tables, norms, hyper-connections
  Cost by_vocabulary;  // part of `rest` that ranks share by rows, like the head
};

// Immutable; any thread.
class ModelCosts {
 public:
  ModelCosts(const ModelConfig& config, const StoredFormats& formats);

  const std::vector<LayerCosts>& layers() const { return layers_; }

  // Returns the bytes of all weights except routed experts that a step of n_tokens reads, and the
  // operations for its tokens. n_logit_rows: tokens that pass through the head; with 0 the head is
  // not read.
  Cost Dense(std::int64_t n_tokens, std::int64_t n_logit_rows) const;
  // Returns the cost of one token's routed experts in all layers.
  Cost RoutedPerToken() const;
  // Returns the bytes of n_experts different experts, counted over all layers.
  double RoutedBytes(double n_experts) const;
  // Returns the attention of the token at `position`: cached rows read, operations of scores,
  // values, indexer.
  Cost Attention(std::int64_t position) const;
  AttentionCost LayerAttention(std::size_t layer, std::int64_t position) const;
  // Returns the costs of the head, its norm and hyper-connection.
  const Costs& outside() const { return outside_; }
  double embedding_bytes() const;
  DraftCosts Draft(const DrafterKind& drafter) const;

  // Returns the differences between formulas and tensors, one line per layer and for the rest;
  // empty if they agree to the byte. Ignores the draft head and unknown names.
  std::vector<std::string> Differences(const Checkpoint& checkpoint) const;

 private:
  ModelConfig config_;
  StoredFormats formats_;
  CachedRowBytes cached_;
  std::vector<LayerCosts> layers_;
  Costs outside_;               // head and its norm
  double embed_row_bytes_ = 0;  // bytes of one token
};

}  // namespace fathom::measure::bench
