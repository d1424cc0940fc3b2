// What the ranks of a replica send each other: docs/cluster.md as formulas.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "checkpoint/model_config.h"
#include "measure/plan/hardware.h"
#include "measure/plan/parallel_layout.h"

namespace fathom::plan {

// How the outputs of experts come to the ranks that need them (docs/spec/parallel.md 4): every rank
// gives all others the rows of its experts, or tokens go to the experts of their owner's choice and
// back while others are computed.
enum class ExpertExchange { kUnfused, kFused };

// Bytes that all ranks of a replica send for one token of one data rank, over all layers, by what
// they are for.
struct WireBytes {
  double embedding = 0;
  double sums = 0;     // after wo_b and after the shared expert
  double experts = 0;  // as exchanged
  double choice = 0;   // of compressed rows, as far as tensor ranks share it
  double rows = 0;     // that are chosen, where the tensor ranks divide them
  double streams = 0;
  double logits = 0;  // of a token that has logits

  double Total() const { return embedding + sums + experts + choice + rows + streams + logits; }
};
// The step that the token is part of: each of its tokens is at `position`, in a sequence of its own
// or in one of n_sequences.
struct StepTokens {
  std::int64_t n_tokens = 1;
  std::int64_t position = 0;
  std::int64_t n_sequences = 0;
};
WireBytes BytesPerToken(const ModelConfig& config, const ParallelLayout& layout,
                        ExpertExchange exchange, const StepTokens& step = {});

// Whether the tensor ranks share the choice of rows in such a step.
bool SharesChoice(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step);
// Of one layer with an indexer where they do: what all of them send in a step.
double ChoiceBytes(const ModelConfig& config, const ParallelLayout& layout, std::int64_t n_tokens);
// Of one such layer, what all of them send of the rows that are chosen: of a sequence's tokens no
// two choose the same, as long as there are others.
double RowBytes(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step);

// Of one layer: what they are for the experts, both ways.
double ExpertBytesUnfused(const ModelConfig& config, const ParallelLayout& layout);
double ExpertBytesFused(const ModelConfig& config, const ParallelLayout& layout);
// Ranks other than its own that one token's experts are on, if all are chosen alike.
double RemoteRanks(const ModelConfig& config, int n_expert);

// Ranks that exchange something, at their worst place: neighbours of one rank, by where they are.
struct Peers {
  int in_node = 0;
  int in_network = 0;

  int all() const { return in_node + in_network; }
};
// Of groups of `size` neighbours among the devices.
Peers PeersOf(const Hardware& hardware, int size);

// Seconds of one round, in which a rank sends as many bytes to every peer, `bytes` to all together,
// and waits for as much.
double RoundSeconds(const Hardware& hardware, const Peers& peers, double bytes);

}  // namespace fathom::plan
