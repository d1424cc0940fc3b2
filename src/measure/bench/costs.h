// What a step must read and compute, from the configuration alone: the formulas of
// docs/spec/flops_bytes.md, for any sizes and formats.
//
// Bytes: every weight that a step needs once, however many tokens share it; routed experts as often
// as there are different ones; of the embedding and of the table of hash layers the rows of the
// tokens only; what the caches hold and a query sees, once per query. Operations: two per
// multiply-add that the result requires; element-wise work is not counted but for the indexer's
// scores, and these only where there are more rows than it chooses.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom::benchmark {

// The rows of the tables of docs/spec/flops_bytes.md 1 and 2.
enum class Component {
  kAttention,  // projections
  kShared,     // shared experts
  kHead,
  kCompressor,
  kIndexer,
  kHyper,   // hyper-connections
  kRouter,  // without the tables of hash layers
  kOther,   // norms, sinks
};
inline constexpr std::size_t kComponents = 8;

struct Cost {
  double bytes = 0;
  double flops = 0;  // of one token

  Cost& operator+=(const Cost& other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
};
using Costs = std::array<Cost, kComponents>;
Cost Sum(const Costs& costs);

// How a checkpoint stores what may be stored in several ways.
struct StoredFormats {
  bool fp4_experts = true;
  std::int64_t scale_bytes = 1;         // of an FP8 matrix that is no expert: 1 (E8M0), 4 (F32)
  std::int64_t expert_scale_bytes = 1;  // the same for FP8 experts
  bool bf16_wo_a = false;
};
// From the tensors of the first layer.
StoredFormats FindStoredFormats(const Checkpoint& checkpoint);

// One layer.
struct LayerCosts {
  int ratio = 0;
  Costs dense;             // all but the routed experts
  Cost by_heads;           // of kAttention: wq_b, wo_a, wo_b, which tensor ranks share
  Cost by_tokens;          // of kIndexer: queries, which tensor ranks share as they do the scores
  Cost expert;             // one routed expert
  double table_bytes = 0;  // tid2eid of hash layers: all, and the row of one token
  double table_row_bytes = 0;
};

// Bytes of one cached row of each kind.
struct CachedRowBytes {
  double window = 0;
  double compressed = 0;
  double index = 0;
};

// Reading cached rows and computing with them, in one layer.
struct AttentionCost {
  Cost core;     // scores and values of all heads
  Cost indexer;  // the choice of rows, of layers of ratio 4
};

// The MTP head, without the embedding and the logits.
struct DraftCosts {
  LayerCosts block;
  Cost rest;  // projections, norms, hyper-connections
};

// Immutable; any thread.
class ModelCosts {
 public:
  ModelCosts(const ModelConfig& config, const StoredFormats& formats);

  const std::vector<LayerCosts>& layers() const { return layers_; }

  // Weights that a step of n_tokens reads without its routed experts, and what a token computes
  // with them. n_logit_rows: tokens that go through the head; with 0 it is not read.
  Cost Dense(std::int64_t n_tokens, std::int64_t n_logit_rows) const;
  // The same by component, of one token with its logits.
  Costs ByComponent() const;
  // Routed experts of one token: all layers.
  Cost RoutedPerToken() const;
  // Bytes of n_experts different ones, counted over all layers.
  double RoutedBytes(double n_experts) const;
  // Attention of the token at `position`: cached rows read, operations of scores, values, indexer.
  Cost Attention(std::int64_t position) const;
  AttentionCost LayerAttention(std::size_t layer, std::int64_t position) const;
  // Head, its norm and hyper-connection.
  const Costs& outside() const { return outside_; }
  double embedding_bytes() const;
  DraftCosts Draft() const;

  // What the formulas say that the tensors do not, one line per layer and for the rest; empty if
  // they agree to the byte. The draft head and names no formula knows are left out.
  std::vector<std::string> Differences(const Checkpoint& checkpoint) const;

 private:
  ModelConfig config_;
  StoredFormats formats_;
  CachedRowBytes cached_;
  std::vector<LayerCosts> layers_;
  Costs outside_;               // of the layers: head and its norm
  double embed_row_bytes_ = 0;  // of one token
};

}  // namespace fathom::benchmark
