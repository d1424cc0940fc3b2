// Computes the bytes that the ranks of a replica send each other: docs/cluster.md as formulas.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"
#include "measure/plan/hardware.h"
#include "measure/plan/parallel_layout.h"

namespace fathom::measure::plan {

// Bytes that all ranks of a replica send for one token of one data rank, over all layers, by
// purpose.
struct WireBytes {
  double embedding = 0;
  double sums = 0;     // after attention and after the shared expert
  double experts = 0;  // bytes of the exchange in use
  double choice = 0;   // lists of compressed rows, if tensor ranks share the choice
  double rows = 0;     // chosen rows, if the tensor ranks divide them
  double streams = 0;
  double logits = 0;  // for a token with logits

  double Total() const { return embedding + sums + experts + choice + rows + streams + logits; }
};
// The step of the token. Each of its tokens is at `position`, in its own sequence or in one of
// n_sequences.
struct StepTokens {
  std::int64_t n_tokens = 1;
  std::int64_t position = 0;
  std::int64_t n_sequences = 0;
};
WireBytes BytesPerToken(const ModelConfig& config, const ParallelLayout& layout,
                        ExpertPath exchange, const StepTokens& step = {});

// Returns true if the tensor ranks share the choice of rows in such a step.
bool SharesChoice(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step);
// Returns the bytes that all ranks send for the choice in one such layer and step.
double ChoiceBytes(const ModelConfig& config, const ParallelLayout& layout, std::int64_t n_tokens);
// Returns the bytes of chosen rows that all ranks send in one such layer: the tokens of a sequence
// choose different rows as long as there are unchosen ones.
double RowBytes(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step);

// Return the bytes for the experts of one layer, in both directions.
double ExpertBytesGathered(const ModelConfig& config, const ParallelLayout& layout);
double ExpertBytesFused(const ModelConfig& config, const ParallelLayout& layout);
// Returns the number of remote ranks with experts of a token, if all experts are equally likely.
double RemoteRanks(const ModelConfig& config, int n_expert);

// The number of peers of a rank in an exchange, by link, for the rank in the worst position.
struct Peers {
  int in_node = 0;
  int in_network = 0;

  int all() const { return in_node + in_network; }
};
// Returns the peers in groups of `size` neighbouring devices.
Peers MakePeers(const Hardware& hardware, int size);

// Returns the seconds of a round in which a rank sends equal parts of `bytes` to its peers and
// receives as much.
double RoundSeconds(const Hardware& hardware, const Peers& peers, double bytes);

}  // namespace fathom::measure::plan
