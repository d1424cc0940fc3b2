// Ranks that share nothing but the routed experts: any number of them, whatever the heads allow.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "distributed/model_ranks.h"

namespace fathom::testing {

// Each computes all logits itself. `expert` outlives it.
class ExpertRanks {
 public:
  ExpertRanks(const ModelConfig& config, Communicator& expert, std::int64_t n_redundant)
      : solo_(MakeSoloCommunicator()) {
    ranks_ = {.shard = WholeModel(config),
              .all = solo_.get(),
              .tensor = solo_.get(),
              .expert = &expert,
              .stages = solo_.get()};
    ranks_.shard.n_expert = expert.size();
    ranks_.shard.expert_rank = expert.rank();
    ranks_.shard.n_redundant_experts = n_redundant;
  }
  const ModelRanks& ranks() const { return ranks_; }

 private:
  std::unique_ptr<Communicator> solo_;
  ModelRanks ranks_;
};

}  // namespace fathom::testing
