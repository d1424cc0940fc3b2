// NeedsFinder: finds the memory that shares of a checkpoint need, for plans with steps of several
// lengths, with and without the drafter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "planning/host_plan.h"
#include "planning/load_plan.h"

namespace fathom {

// The part of a model that one of several ranks has.
struct HostShare {
  ModelShard shard;
  BlockPlacements placement{};  // placement of experts; empty: the default
};

// Reads headers only. The sizes of weights do not depend on the steps, so the sizes of a share are
// found once with the drafter, and once without. One thread.
class NeedsFinder {
 public:
  // Each share computes with n_threads threads and has the given bytes. No shares: one share that
  // is the whole model. Checkpoint and shares must outlive the finder.
  NeedsFinder(const ModelConfig& config, const Checkpoint& checkpoint,
              std::span<const HostShare> shares, int n_threads, std::int64_t budget);

  std::size_t n_shares() const { return weights_.size(); }
  std::int64_t budget() const { return budget_; }
  // Returns the needs of a share in a plan, in which kDefaultKvMemory becomes the default for the
  // budget. Errors: see BindWeights and ComputeStepNeeds.
  Result<HostNeeds> Find(std::size_t share, LoadPlan plan);
  // Returns how often weights were bound, for tests.
  int n_bound() const { return n_bound_; }

 private:
  // The weights of a share.
  struct Weights {
    ModelConfig config;          // includes the fields that the drafter adds
    const DrafterKind* drafter;  // null: none
    HostNeeds sizes;             // all but the sizes of steps
  };
  Result<Weights> Bind(std::size_t share, bool with_draft);
  ModelShard MakeShard(std::size_t share) const {
    return shares_.empty() ? WholeModel(config_) : shares_[share].shard;
  }

  const ModelConfig config_;
  const Checkpoint& checkpoint_;
  const std::span<const HostShare> shares_;
  const int n_threads_;
  const std::int64_t budget_;
  std::vector<std::array<std::optional<Weights>, 2>> weights_;  // by share; without, with drafter
  int n_bound_ = 0;
};

}  // namespace fathom
