#include "measure/plan/wire.h"

#include <algorithm>

#include "base/integer_math.h"
#include "distributed/index_partition.h"
#include "kernels/key_layout.h"
#include "kernels/layer_cache.h"
#include "kernels/row_choice.h"
#include "kernels/weight_format.h"
#include "measure/plan/hardware.h"

namespace fathom::measure::plan {
namespace {

constexpr double kBf16Bytes = 2;
constexpr double kF32Bytes = 4;
constexpr double kRouteBytes = 12;  // ids and weight, per pair of token and expert

// Returns the bytes of one sum of n_parts parts over the tensor ranks: the parts of every share of
// the columns, then the sums.
double SumBytes(double width, int n_parts, int n_tensor) {
  const double others = n_tensor - 1;
  return kF32Bytes * width * others * (Number(n_parts) / n_tensor + 1);
}

}  // namespace

double RemoteRanks(const ModelConfig& config, int n_expert) {
  const double n_experts = Number(config.n_routed_experts);
  const double elsewhere = n_experts - n_experts / n_expert;
  double none = 1;  // probability that a given rank has no chosen expert
  for (std::int64_t i = 0; i < config.num_experts_per_tok; ++i) {
    none *= std::max(elsewhere - Number(i), 0.0) / (n_experts - Number(i));
  }
  return (n_expert - 1) * (1 - none);
}

// Data ranks first send their tokens and routes to the others; then every rank sends all others the
// rows of its experts.
double ExpertBytesGathered(const ModelConfig& config, const ParallelLayout& layout) {
  const int n = layout.n_expert();
  if (n == 1) return 0;
  const double row = kBf16Bytes * Number(config.hidden_size);
  const double k = Number(config.num_experts_per_tok);
  return (row + kRouteBytes * k) * (n - layout.n_tensor) + row * k * (n - 1);
}

// See docs/spec/parallel.md 4.1. Afterwards the owner of a token sends the sum to its tensor ranks.
double ExpertBytesFused(const ModelConfig& config, const ParallelLayout& layout) {
  const int n = layout.n_expert();
  if (n == 1) return 0;
  const double d = Number(config.hidden_size);
  const double remote_experts = Number(config.num_experts_per_tok) * (1.0 - 1.0 / n);
  return RemoteRanks(config, n) * (d + d / Number(kFp8Block)) + kRouteBytes * remote_experts +
         kBf16Bytes * d * remote_experts + kBf16Bytes * d * (layout.n_tensor - 1);
}

bool SharesChoice(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step) {
  const std::int64_t n_rows = RowsToScore(config, step.position) * step.n_tokens;
  return layout.decode_context_parallel
             ? n_rows > 0
             : SharesScoring(config, {.n_tensor = layout.n_tensor}, n_rows);
}

// Each rank that scored rows of a token sends a list to all others.
double ChoiceBytes(const ModelConfig& config, const ParallelLayout& layout, std::int64_t n_tokens) {
  std::int64_t n_lists = 0;
  for (int rank = 0; rank < layout.n_tensor; ++rank) {
    const std::int64_t first = n_tokens * rank / layout.n_tensor;
    const std::int64_t end = DivideUp(n_tokens * (rank + 1), layout.n_tensor);
    n_lists += layout.decode_context_parallel ? n_tokens : end - first;
  }
  return sizeof(ScoredRow) * Number(config.index_topk * n_lists * (layout.n_tensor - 1));
}

double RowBytes(const ModelConfig& config, const ParallelLayout& layout, const StepTokens& step) {
  if (!layout.decode_context_parallel) return 0;
  const std::int64_t visible = VisibleRows(step.position, 4);
  const std::int64_t per_token = std::min(visible, config.index_topk);
  const std::int64_t n_sequences = step.n_sequences > 0 ? step.n_sequences : step.n_tokens;
  const std::int64_t n_rows = std::min(visible * n_sequences, per_token * step.n_tokens);
  const KeyLayout keys = {config.head_dim, config.qk_rope_head_dim};
  return Number(KeyBytes(keys) * n_rows * (layout.n_tensor - 1));
}

WireBytes BytesPerToken(const ModelConfig& config, const ParallelLayout& layout,
                        ExpertPath exchange, const StepTokens& step) {
  const double d = Number(config.hidden_size);
  const double layers = Number(config.num_hidden_layers);
  const int n_tensor = layout.n_tensor;
  const int latent_parts = RowParallelParts(config.o_groups * config.o_lora_rank);
  const int shared_parts = RowParallelParts(config.moe_intermediate_size);
  WireBytes bytes;
  bytes.embedding = kBf16Bytes * d * (n_tensor - 1);
  if (n_tensor > 1) {
    bytes.sums =
        layers * (SumBytes(d, latent_parts, n_tensor) + SumBytes(d, shared_parts, n_tensor));
  }
  bytes.experts = layers * (exchange == ExpertPath::kFused ? ExpertBytesFused(config, layout)
                                                           : ExpertBytesGathered(config, layout));
  const auto first = config.compress_ratios.begin();
  const auto n_choosing = std::count(first, first + config.num_hidden_layers, 4);
  const double per_token = Number(n_choosing) / Number(step.n_tokens);
  if (SharesChoice(config, layout, step)) {
    bytes.choice = per_token * ChoiceBytes(config, layout, step.n_tokens);
  }
  bytes.rows = per_token * RowBytes(config, layout, step);
  bytes.streams = kBf16Bytes * kStreams * d * n_tensor * (layout.n_stages - 1);
  const int n_heads = layout.stage_ranks();
  const double from = layout.n_stages > 1 ? n_heads : n_heads - 1;  // all ranks except rank 0
  bytes.logits = kF32Bytes * Number(config.vocab_size) * from / n_heads;
  if (layout.n_data > 1)
    bytes.logits += kBf16Bytes * d * (n_heads - 1);  // the row, to all other ranks
  return bytes;
}

Peers MakePeers(const Hardware& hardware, int size) {
  Peers worst = {.in_node = size - 1};
  const std::int64_t per_node = hardware.devices_per_node;
  for (std::int64_t rank = 0; rank < hardware.n_devices(); ++rank) {
    const std::int64_t first = rank / size * size;
    const std::int64_t node_first = rank / per_node * per_node;
    const std::int64_t begin = std::max(first, node_first);
    const std::int64_t end = std::min(first + size, node_first + per_node);
    const int in_node = static_cast<int>(end - begin) - 1;
    if (in_node < worst.in_node) {
      worst = {.in_node = in_node, .in_network = size - 1 - in_node};
    }
  }
  return worst;
}

// Both links send at the same time; the slower one ends the round.
double RoundSeconds(const Hardware& hardware, const Peers& peers, double bytes) {
  const auto over = [&](const Link& link, int n) {
    return n == 0 ? 0
                  : link.latency + n * link.per_message +
                        bytes * n / peers.all() / link.bytes_per_second;
  };
  return std::max(over(hardware.node, peers.in_node), over(hardware.network, peers.in_network));
}

}  // namespace fathom::measure::plan
