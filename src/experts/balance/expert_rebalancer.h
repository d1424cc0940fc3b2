// ExpertRebalancer: gives popular experts more replicas and every rank about the same load, based
// on the choices of the last steps (docs/spec/parallel.md 5).
//
//   Status started = rebalancer.Start();          // between two steps
//   for (bool finished = false; !finished;) {
//     finished = *rebalancer.Advance();           // after each of the next ones
//   }
//
// Blocks move one after the other. The experts of a block are sent to spare memory, a piece while
// each block of the steps is computed (experts/balance/expert_shipment.h); then all ranks change
// its map and its weights between the same two steps. No step sees a block half moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "experts/balance/expert_shipment.h"
#include "experts/store/placed_experts.h"

namespace fathom::experts {

// The result of one rebalancing, for the blocks of this rank's stage.
struct RebalanceReport {
  // Tokens of the busiest rank of each block within the window, divided by the tokens of the
  // average rank, both summed over the blocks, as steps wait for the busiest rank of every block.
  // Before: with the replicas where they were; after: with the replicas where they are now.
  double imbalance_before = 1;
  double imbalance_after = 1;
  std::int64_t n_moved_blocks = 0;
  std::int64_t n_kept_blocks = 0;    // blocks that could not move, for the reason in `failure`
  std::int64_t n_moved_experts = 0;  // by all ranks of the stage
  std::int64_t moved_bytes = 0;
  std::int64_t n_steps = 0;  // steps during which the experts moved
  double seconds = 0;        // seconds that steps waited, within and between them
  std::string failure;
};

// `experts` must outlive this object. All ranks of the model call the same functions between the
// same steps. Errors: ranks that cannot be reached, or that disagree about where experts are; no
// rank may run another step afterwards. A block that a rank has no memory for, or may not lock, is
// no error: its replicas stay where they are on all ranks, and the report says so.
class ExpertRebalancer {
 public:
  // bytes_per_block: the most bytes that a rank sends while a block is computed.
  explicit ExpertRebalancer(PlacedExperts& experts, std::int64_t bytes_per_block = kBytesPerBlock);

  // Decides the new placement by the loads of all ranks. A block whose busiest rank would gain less
  // than 2 % stays as it is. Not while a rebalancing runs.
  Status Start();
  // Call after a step: activates the block that has arrived, if any, and begins the next move.
  // Returns true, on all ranks, when everything has moved.
  Result<bool> Advance();
  // Moves everything that is left, without further steps.
  Status Finish();
  bool is_running() const { return n_steps_left_ > 0; }

  // Returns the report of the last rebalancing that was started.
  const RebalanceReport& report() const { return report_; }

 private:
  // A block that will move.
  struct Move {
    std::int64_t block = 0;
    ReplicaMap to;
    ExpertMoveRounds rounds;
    std::vector<float> load;  // [experts]
  };

  Result<std::vector<std::int64_t>> SumLoads() const;
  Status CheckMaps() const;
  void Decide(std::span<const std::int64_t> loads);
  ExpertMoveRounds PlanRounds(std::int64_t block, const ReplicaMap& to) const;
  Status CountSteps();
  Status Advance(std::int64_t n_steps_left);
  Status BeginMove();
  Result<bool> Prepare(Move& move);
  Status AllocateMemory(Move& move);
  static std::vector<PlacedExperts::Arrival> ListArrivals(const Move& move);
  Status FinishMove();
  Status Commit(const Move& move);

  PlacedExperts& experts_;
  std::int64_t bytes_per_block_;
  std::vector<Move> moves_;
  std::size_t move_ = 0;                                         // the move that runs
  std::int64_t n_steps_left_ = 0;                                // steps left for the slowest stage
  double busiest_before_ = 0, busiest_after_ = 0, average_ = 0;  // tokens, over all blocks
  RebalanceReport report_;
};

// Decides when experts are rebalanced. The rebalancer must outlive it. All ranks call the same
// functions after the same steps.
class RebalanceSchedule {
 public:
  using OnEnd = std::function<void(const RebalanceReport&)>;

  // Rebalances every `interval` tokens (at least 1), the first time after a quarter of them.
  // `on_end` is called for each rebalancing that has ended.
  RebalanceSchedule(ExpertRebalancer& rebalancer, std::int64_t interval, OnEnd on_end);

  // Call after a step of n_tokens tokens (0: an empty step, which does not count): begins or
  // continues a rebalancing. Errors: the rebalancer's.
  Status AfterStep(std::int64_t n_tokens);
  // Completes a rebalancing that has begun.
  Status Finish();

 private:
  void End();

  ExpertRebalancer& rebalancer_;
  std::int64_t interval_;
  OnEnd on_end_;
  std::int64_t n_tokens_;  // tokens since the last rebalancing began
  bool has_begun_ = false;
};

}  // namespace fathom::experts
