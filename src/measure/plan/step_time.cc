#include "measure/plan/step_time.h"

#include <algorithm>

#include "base/integer_math.h"
#include "comm/communicator.h"
#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"
#include "measure/plan/expert_spread.h"
#include "measure/plan/hardware.h"

namespace fathom::measure::plan {
namespace {

using bench::Component;
using bench::Cost;
using bench::Costs;

// Returns the format in which a component's matrices are multiplied; hyper-connections are F32, and
// small.
FormatFlops ComponentFormat(Component component) {
  const bool is_fp8 = component == Component::kAttention || component == Component::kShared;
  return is_fp8 ? &Device::fp8_flops : &Device::bf16_flops;
}

}  // namespace

StageTime& StageTime::operator+=(const StageTime& other) {
  dense += other.dense;
  experts += other.experts;
  attention += other.attention;
  exchange += other.exchange;
  streams += other.streams;
  overhead += other.overhead;
  return *this;
}

StepTimes::StepTimes(const ModelSizes& model, const Hardware& hardware, const ExpertLoad& load,
                     const ParallelLayout& layout, const PlannedExperts& options)
    : model_(model),
      hardware_(hardware),
      load_(load),
      layout_(layout),
      exchange_(options.exchange),
      tensor_peers_(MakePeers(hardware, layout.n_tensor)),
      expert_peers_(MakePeers(hardware, layout.n_expert())) {
  for (int stage = 0; stage < layout.n_stages; ++stage) {
    shares_.push_back(model.StageShard(layout, stage));
  }
  for (const bench::LayerCosts& layer : model.costs().layers()) {
    dense_.push_back(model.DenseOfRank(layer, layout.n_tensor));
  }
  const int n_expert = layout.n_expert();
  double plain_sum = 0, sum = 0;
  for (const std::vector<double>& shares : load_) {
    const ExpertPlacement plain = PlaceExperts(shares, {}, n_expert);
    placements_.push_back(n_expert > 1 ? PlaceExperts(shares, options.n_redundant, n_expert)
                                       : plain);
    plain_sum += ComputeImbalance(shares, plain, n_expert);
    sum += ComputeImbalance(shares, placements_.back(), n_expert);
  }
  plain_imbalance_ = plain_sum / Number(std::ssize(load_));
  imbalance_ = sum / Number(std::ssize(load_));
}

double StepTimes::Seconds(const Cost& cost, FormatFlops format) const {
  const Device& device = hardware_.device;
  return std::max(cost.bytes / (device.bytes_per_second * hardware_.memory_efficiency),
                  cost.flops / (device.*format * hardware_.compute_efficiency));
}

// Components run one after another: none reads memory while another computes.
double StepTimes::ComponentSeconds(const Costs& costs, double n_rows) const {
  double seconds = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    seconds += Seconds({costs[i].bytes, costs[i].flops * n_rows},
                       ComponentFormat(static_cast<Component>(i)));
  }
  return seconds;
}

const std::vector<StepTimes::BusiestRank>& StepTimes::BusiestExperts(std::int64_t n_tokens) {
  const auto known = work_.find(n_tokens);
  if (known != work_.end()) return known->second;
  const int n_ranks = layout_.n_expert();
  const double n_deviations = ExpectedMaximum(n_ranks);
  const FormatFlops format = model_.formats().fp4_experts ? &Device::fp4_flops : &Device::fp8_flops;
  std::vector<BusiestRank> layers;
  for (std::size_t layer = 0; layer < load_.size(); ++layer) {
    const Cost expert = model_.costs().layers()[layer].expert;
    BusiestRank busiest;
    for (const PlannedWork& work :
         SpreadWork(load_[layer], placements_[layer], n_ranks, n_tokens)) {
      const double rows = work.RowsAbove(n_deviations);
      busiest.rows = std::max(busiest.rows, rows);
      busiest.seconds = std::max(
          busiest.seconds,
          Seconds({work.ExpertsAbove(n_deviations) * expert.bytes, rows * expert.flops}, format));
    }
    layers.push_back(busiest);
  }
  return work_.emplace(n_tokens, std::move(layers)).first->second;
}

// Returns the time of the two sums of a layer, each in two rounds.
double StepTimes::SumSeconds(std::int64_t n_tokens) const {
  if (layout_.n_tensor == 1) return 0;
  const ModelConfig& config = model_.config();
  const double sum_bytes =
      sizeof(float) * Number(config.hidden_size * n_tokens) * (1.0 - 1.0 / layout_.n_tensor);
  double seconds = 0;
  for (const std::int64_t k :
       {config.o_groups * config.o_lora_rank, config.moe_intermediate_size}) {
    const std::int64_t n_parts = DivideParts(RowParallelParts(k), 0, layout_.n_tensor).count;
    seconds += RoundSeconds(hardware_, tensor_peers_, sum_bytes * Number(n_parts)) +
               RoundSeconds(hardware_, tensor_peers_, sum_bytes);
  }
  return seconds;
}

void StepTimes::AddExperts(const BusiestRank& busiest, const StepWork& work,
                           StageTime* time) const {
  time->experts += busiest.seconds;
  const int n = layout_.n_expert();
  if (n == 1) return;
  const double row = sizeof(Bf16) * Number(model_.config().hidden_size);
  const double n_tokens = Number(work.n_tokens);
  if (exchange_ == ExpertPath::kGather) {
    if (n > layout_.n_tensor) {
      time->exchange += RoundSeconds(hardware_, expert_peers_,
                                     row * n_tokens * (n - layout_.n_tensor) / layout_.n_tensor);
    }
    time->exchange += RoundSeconds(hardware_, expert_peers_, row * busiest.rows * (n - 1));
    return;
  }
  // Both directions overlap with the experts' own work; only a longer time counts.
  const double there_and_back =
      (ExpertBytesFused(model_.config(), layout_) - row * (layout_.n_tensor - 1)) * n_tokens *
      work.n_data / n;
  const double mean_rows = Number(model_.config().num_experts_per_tok) * n_tokens * work.n_data / n;
  const double moved =
      2 * RoundSeconds(hardware_, expert_peers_, there_and_back * busiest.rows / mean_rows / 2);
  time->exchange += std::max(moved - busiest.seconds, 0.0);
  if (layout_.n_tensor > 1) {
    time->exchange += RoundSeconds(hardware_, tensor_peers_,
                                   row * n_tokens * (layout_.n_tensor - 1) / layout_.n_tensor);
  }
}

// Tensor ranks divide the heads, each of which reads all keys. They divide the choice of rows, too:
// each rank reads the rows of its part of the sequences, or its part of a single token's rows; or
// all of its own rows, if the ranks divide cached rows.
void StepTimes::AddAttention(std::size_t layer, const StepWork& work, StageTime* time) const {
  const bool is_shared = SharesIndexer(layer, work);
  const double n_ranks = is_shared ? layout_.n_tensor : 1;
  const bench::AttentionCost read = model_.costs().LayerAttention(layer, work.last_position);
  const bench::AttentionCost done = model_.costs().LayerAttention(layer, work.position);
  const double n_sequences = Number(work.n_sequences);
  const double n_tokens = Number(work.n_tokens);
  const double least_read = layout_.decode_context_parallel ? 0 : std::min(1.0, n_tokens / n_ranks);
  time->attention +=
      Seconds({read.core.bytes * n_sequences, done.core.flops * n_tokens / layout_.n_tensor},
              &Device::bf16_flops) +
      Seconds({read.indexer.bytes * std::max(n_sequences / n_ranks, least_read),
               done.indexer.flops * n_tokens / n_ranks},
              &Device::fp8_flops);
  if (is_shared) {
    time->exchange +=
        RoundSeconds(hardware_, tensor_peers_,
                     ChoiceBytes(model_.config(), layout_, work.n_tokens) / layout_.n_tensor);
  }
  if (layout_.decode_context_parallel && model_.costs().layers()[layer].ratio == 4) {
    const double bytes =
        RowBytes(model_.config(), layout_, {work.n_tokens, work.last_position, work.n_sequences});
    time->exchange += RoundSeconds(hardware_, tensor_peers_, bytes / layout_.n_tensor);
  }
}

bool StepTimes::SharesIndexer(std::size_t layer, const StepWork& work) const {
  return model_.costs().layers()[layer].ratio == 4 &&
         SharesChoice(model_.config(), layout_, {work.n_tokens, work.position});
}

// Returns the time of everything except the routed experts and the cached rows.
double StepTimes::DenseSeconds(std::size_t layer, const StepWork& work) const {
  const double n_tokens = Number(work.n_tokens);
  const bench::LayerCosts& of_layer = model_.costs().layers()[layer];
  const double table = Seconds({of_layer.table_row_bytes * n_tokens, 0}, &Device::bf16_flops);
  Costs costs = dense_[layer];
  if (SharesIndexer(layer, work) && !layout_.decode_context_parallel) {
    const double own = Number(DivideUp(work.n_tokens, layout_.n_tensor)) / n_tokens;
    costs[static_cast<std::size_t>(Component::kIndexer)].flops -=
        of_layer.by_tokens.flops * (1 - own);
  }
  return ComponentSeconds(costs, n_tokens) + table;
}

// Adds the embedding of the first stage and the logits of the last.
void StepTimes::AddEnds(const ModelShard& share, const StepWork& work, StageTime* time) const {
  const ModelConfig& config = model_.config();
  const int n_tensor = layout_.n_tensor;
  if (share.is_first_stage()) {
    const double row = sizeof(Bf16) * Number(config.hidden_size);
    time->dense += Seconds({row * Number(work.n_tokens), 0}, &Device::bf16_flops);
    if (n_tensor > 1) {
      const std::int64_t n_rows = DivideUp(work.n_tokens, n_tensor);
      time->exchange +=
          RoundSeconds(hardware_, tensor_peers_, row * Number(n_rows * (n_tensor - 1)));
    }
  }
  if (!share.is_last_stage() || work.n_logit_rows == 0) return;
  // All ranks of a stage share the head, for the rows of all ranks.
  const int n_heads = layout_.stage_ranks();
  const std::int64_t n_logit_rows = work.n_logit_rows * layout_.n_data;
  time->dense += ComponentSeconds(model_.OutsideOfRank(layout_), Number(n_logit_rows));
  if (layout_.n_data > 1) {
    const double row = sizeof(Bf16) * Number(config.hidden_size);
    time->exchange +=
        RoundSeconds(hardware_, expert_peers_, row * Number(work.n_logit_rows) * (n_heads - 1));
  }
  const int n_ranks = layout_.replica_ranks();
  if (n_ranks > 1) {
    // All messages to rank 0.
    const double from = layout_.n_stages > 1 ? n_heads : n_heads - 1;
    const bool in_node = MakePeers(hardware_, n_ranks).in_network == 0;
    const double bytes = sizeof(float) * Number(config.vocab_size * n_logit_rows) * from / n_heads;
    time->exchange +=
        RoundSeconds(hardware_, {.in_node = in_node ? 1 : 0, .in_network = in_node ? 0 : 1}, bytes);
  }
}

double StepTimes::StreamSeconds(int stage, std::int64_t n_tokens) const {
  if (stage + 1 == layout_.n_stages) return 0;
  const std::int64_t per_node = hardware_.devices_per_node;
  bool in_node = true;
  for (int replica = 0; replica < layout_.n_replicas; ++replica) {
    for (int i = 0; i < layout_.stage_ranks(); ++i) {
      const std::int64_t rank =
          replica * layout_.replica_ranks() + stage * layout_.stage_ranks() + i;
      in_node = in_node && rank / per_node == (rank + layout_.stage_ranks()) / per_node;
    }
  }
  const double bytes = sizeof(Bf16) * Number(kStreams * model_.config().hidden_size * n_tokens);
  return RoundSeconds(hardware_, {.in_node = in_node ? 1 : 0, .in_network = in_node ? 0 : 1},
                      bytes);
}

StageTime StepTimes::Compute(int stage, const StepWork& work) {
  const ModelShard& share = shares_[static_cast<std::size_t>(stage)];
  const std::vector<BusiestRank>& experts = BusiestExperts(work.n_tokens * work.n_data);
  StageTime time = {
      .streams = StreamSeconds(stage, work.n_tokens),
      .overhead = hardware_.step_seconds +
                  hardware_.layer_seconds * Number(share.end_layer - share.first_layer)};
  const double sums = SumSeconds(work.n_tokens);
  for (std::int64_t i = share.first_layer; i < share.end_layer; ++i) {
    const auto layer = static_cast<std::size_t>(i);
    time.dense += DenseSeconds(layer, work);
    time.exchange += sums;
    AddExperts(experts[layer], work, &time);
    AddAttention(layer, work, &time);
  }
  AddEnds(share, work, &time);
  return time;
}

}  // namespace fathom::measure::plan
