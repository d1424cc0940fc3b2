// StepTimes: the time of a step on a stage of a pipeline: reading and computing on the busiest
// rank, where each component takes the longer of the two, and its messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "experts/balance/expert_balancer.h"
#include "measure/plan/expert_load.h"
#include "measure/plan/hardware.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/parallel_layout.h"
#include "measure/plan/wire.h"

namespace fathom::measure::plan {

// The work of one data rank in a step.
struct StepWork {
  std::int64_t n_tokens = 1;
  std::int64_t n_sequences = 1;    // cached rows are read once for each
  std::int64_t position = 0;       // average position of a token
  std::int64_t last_position = 0;  // the visible cached rows of this position are read
  std::int64_t n_logit_rows = 0;
  int n_data = 1;  // data ranks with this much work; the others are idle
};

// Seconds by purpose.
struct StageTime {
  double dense = 0;  // weights outside the routed experts
  double experts = 0;
  double attention = 0;  // cached rows
  double exchange = 0;   // messages within the stage, and the logits
  double streams = 0;    // messages to the next stage
  double overhead = 0;

  double Total() const { return dense + experts + attention + exchange + streams + overhead; }
  StageTime& operator+=(const StageTime& other);
};

struct PlannedExperts {
  ExpertPath exchange = ExpertPath::kGather;
  // Replicas for the balancer; missing: no balancing.
  std::optional<std::int64_t> n_redundant;
};

// For one layout, whose counts fit model and options. The model and the hardware must outlive this
// object. One thread.
class StepTimes {
 public:
  StepTimes(const ModelSizes& model, const Hardware& hardware, const ExpertLoad& load,
            const ParallelLayout& layout, const PlannedExperts& options);

  // Returns the time of a step on a stage.
  StageTime Compute(int stage, const StepWork& work);

  // Returns max / mean of the expert ranks' rows over many tokens, averaged over the layers:
  // without balancing, and with it (1 without expert ranks).
  double plain_imbalance() const { return plain_imbalance_; }
  double imbalance() const { return imbalance_; }

 private:
  // The work of the busiest rank in one layer.
  struct BusiestRank {
    double seconds = 0;
    double rows = 0;
  };

  double Seconds(const bench::Cost& cost, FormatFlops format) const;
  double ComponentSeconds(const bench::Costs& costs, double n_rows) const;
  const std::vector<BusiestRank>& BusiestExperts(std::int64_t n_tokens);
  double SumSeconds(std::int64_t n_tokens) const;
  void AddExperts(const BusiestRank& busiest, const StepWork& work, StageTime* time) const;
  bool SharesIndexer(std::size_t layer, const StepWork& work) const;
  double DenseSeconds(std::size_t layer, const StepWork& work) const;
  void AddAttention(std::size_t layer, const StepWork& work, StageTime* time) const;
  void AddEnds(const ModelShard& share, const StepWork& work, StageTime* time) const;
  double StreamSeconds(int stage, std::int64_t n_tokens) const;

  const ModelSizes& model_;
  const Hardware& hardware_;
  const ExpertLoad load_;
  const ParallelLayout layout_;
  const ExpertPath exchange_;
  const Peers tensor_peers_;
  const Peers expert_peers_;
  std::vector<ExpertPlacement> placements_;                // every layer
  std::vector<ModelShard> shares_;                         // every stage
  std::vector<bench::Costs> dense_;                        // every layer
  std::map<std::int64_t, std::vector<BusiestRank>> work_;  // by tokens, then by layer
  double plain_imbalance_ = 1;
  double imbalance_ = 1;
};

}  // namespace fathom::measure::plan
