// Planner: finds the layouts in which given hardware can run a model, with their expected speed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/plan/expert_load.h"
#include "measure/plan/hardware.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/parallel_layout.h"
#include "measure/plan/step_time.h"
#include "measure/plan/wire.h"

namespace fathom::measure::plan {

// The work to plan for.
struct Workload {
  std::int64_t context = 8192;   // positions of a sequence before the decoded token
  std::int64_t prompt = 2048;    // tokens of a single request
  std::int64_t concurrency = 1;  // sequences decoded together, on all devices
  std::int64_t chunk = 512;      // the most prompt tokens of a step
  // Parts of a batch in flight in a pipeline; 0: one per stage, as in the engine.
  std::int64_t micro_batches = 0;
  // Tensor ranks divide their cached rows where supported, even if the memory holds all rows.
  bool decode_context_parallel = false;
  PlannedExperts experts;
};

struct PlannedLayout {
  ParallelLayout layout;
  std::string problem;  // the reason why the layout cannot do the work; empty: it can

  // Bytes of the rank that needs the most memory.
  std::int64_t weights = 0;
  std::int64_t workspace = 0;
  std::int64_t caches = 0;  // for the sequences of the workload
  // The most sequences of the whole context whose caches fit in the memory of all devices.
  std::int64_t most_sequences = 0;

  double first_token_seconds = 0;      // time to the first token after the prompt
  double token_seconds = 0;            // from one token of a sequence to the next
  double tokens_per_second = 0;        // decoded tokens of all sequences
  double plain_tokens_per_second = 0;  // without balancing
  double prompt_tokens_per_second = 0;
  StageTime token_time;  // time of a decoded token, through all stages; parts of the batch overlap

  WireBytes wire;                    // bytes of a replica for a decoded token
  double gathered_expert_bytes = 0;  // WireBytes::experts by each path
  double fused_expert_bytes = 0;
  double step_bytes = 0;       // bytes of a replica's whole decoding step
  double plain_imbalance = 1;  // imbalance of the expert ranks
  double imbalance = 1;        // with the workload's balancing

  bool fits() const { return problem.empty(); }
};

struct PlannedLayouts {
  Hardware hardware;
  Workload workload;
  std::vector<PlannedLayout> rows;  // rows that fit first, then by tokens per second

  // Returns the first row that fits and is not an estimate; nullptr: none.
  const PlannedLayout* Recommended() const;
};

// Errors (kInvalidArgument): the workload has more positions than the model.
Result<PlannedLayouts> PlanLayouts(const ModelSizes& model, const Hardware& hardware,
                                   const ExpertLoad& load, const Workload& workload);

}  // namespace fathom::measure::plan
