// ParallelLayout: a division of a model among devices: within a replica as the program divides it
// (distributed/model_ranks.h), and into replicas that are independent of each other.
//
//   device = ((replica * n_stages + stage) * n_data + data rank) * n_tensor + tensor rank
//
// A data rank (n_data > 1) has its own sequences, its n_tensor devices compute their attention, and
// all devices of a stage share the experts and the head. Several tensor ranks in a data rank are an
// estimate: the program does not support them yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"

namespace fathom::measure::plan {

struct ParallelLayout {
  int n_tensor = 1;
  int n_stages = 1;
  int n_data = 1;
  bool expert_parallel = false;
  int n_replicas = 1;
  bool decode_context_parallel = false;  // the tensor ranks divide the cached rows of ratio 4

  int stage_ranks() const { return n_tensor * n_data; }
  int replica_ranks() const { return stage_ranks() * n_stages; }
  int n_expert() const { return expert_parallel ? stage_ranks() : 1; }
  bool is_estimate() const { return n_data > 1 && n_tensor > 1; }
  // Returns the counts of one data rank, for an estimate.
  RankCounts counts() const {
    return {.n_tensor = n_tensor,
            .n_stages = n_stages,
            .expert_parallel = n_expert() > 1,
            .n_data = is_estimate() ? 1 : n_data,
            .decode_context_parallel = decode_context_parallel};
  }
};

// Returns the layouts that use every device and divide the model, smallest replicas first. Cached
// rows are not divided.
std::vector<ParallelLayout> LegalLayouts(const ModelConfig& config, std::int64_t n_devices);

// Returns the layout with tensor ranks that divide their cached rows, if the program supports it;
// none if the layout divides them already.
std::optional<ParallelLayout> WithDividedRows(const ModelConfig& config,
                                              const ParallelLayout& layout);

// Returns the flags of the program: "--tp 8 --pp 2 --ep 8". With "--dp-attention" the data ranks
// are the remaining devices of a stage.
std::string Flags(const ParallelLayout& layout);

}  // namespace fathom::measure::plan
