// Scheduler: chooses the tokens of the next step.
//
// A step decodes every sequence that can, with its drafts, and fills the rest of the token budget
// with prompts: the first few sequences that still read a prompt get equal shares, so that a short
// prompt does not wait for a long one. While sequences decode, the prompt tokens of a step are
// limited so that the step takes about the target time.
//
// A sequence whose mask was late (docs/spec/constrained.md 3.4) is left out until the mask is
// ready.
//
// With several steps in flight (the stages of a pipeline), decoding sequences take turns: each step
// gets an equal share of them, and no sequence is in two steps in flight.
//
// A model that can pause between layers (limits.pause_tokens) computes prompts in steps of their
// own while sequences decode. Such a step takes as many prompt tokens as there are, because
// sequences decode in its pauses (PlanBesidePass). Its sequences keep their slots and blocks until
// the step has ended.
//
// Sequences rank by priority, then by arrival. Memory is given in that order. When memory is short,
// blocks that only the prefix cache holds are evicted first; then the lowest-ranked sequence is
// preempted: it loses its slot, waits again, and later recomputes its tokens or finds them cached.
// The highest-ranked sequence is never preempted, so the engine always makes progress.
//
// With several data ranks, each data rank has memory for its own sequences, a sequence stays on its
// rank while it has a slot, all rules above apply to each data rank separately, and a sequence is
// preempted only for one of the same rank. A waiting sequence goes to the data rank that has most
// of its text cached, else to the one that runs the fewest (data_rank_slots.h). The slowest rank
// sets the time of a step, so prompt tokens are first divided equally among the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache_manager.h"
#include "engine/metrics.h"
#include "engine/ranks/data_rank_slots.h"
#include "engine/sequence.h"
#include "model/language_model.h"

namespace fathom::engine {

struct PlannedSegment {
  Sequence* sequence = nullptr;
  std::int64_t n_tokens = 0;  // tokens from sequence->computed on
  std::int64_t n_drafts = 0;  // drafts after these tokens
  bool decodes = false;       // all but the last token was computed before
  bool samples = false;       // the logits of its last token choose the next token
  // The index of the segment in the batch of the step, and the error if it failed alone.
  std::size_t in_batch = 0;
  std::optional<Error> failure{};
};

struct StepPlan {
  std::vector<PlannedSegment> segments;
  std::int64_t n_decoding = 0;
  std::int64_t n_prompt_tokens = 0;  // prompt tokens in sequences that do not decode
};

struct SchedulerOptions {
  std::int64_t max_step_tokens = 0;      // at most the model's limit
  double target_step_seconds = 0.25;     // for a step that has prompts while sequences decode
  std::int64_t max_events_per_step = 1;  // events that a sequence may add in a step
  int n_in_flight = 1;                   // the most steps that may be in flight
};

// Does not own the sequences. Engine thread only.
class Scheduler {
 public:
  Scheduler(CacheManager& caches, const ModelLimits& limits, const SchedulerOptions& options,
            EngineMetrics& metrics);

  void Add(Sequence& sequence);
  // Chooses the next step while n_running steps run. `plan` is empty if nothing can run, or nothing
  // can run until one of these steps ends.
  void Plan(StepPlan& plan, int n_running);
  // Chooses the sequences that decode while a pass in pieces is paused; admits none.
  void PlanBesidePass(StepPlan& plan);
  // Keeps the slots and blocks of the sequences of a plan until EndPass. EndPass frees them for
  // sequences that have finished meanwhile.
  void BeginPass(const StepPlan& plan);
  void EndPass(const StepPlan& plan);
  // Returns the number of sequences that decode in the step just planned or in running steps.
  std::int64_t DecodingNow() const;
  // Records the time of a step, which limits the prompt tokens of later steps.
  void RecordStepTime(const StepPlan& plan, double seconds);
  // Gives a slot to `to`, a copy of the running sequence `from`. Returns false if no slot is free;
  // `to` has to wait.
  bool Fork(const Sequence& from, Sequence& to);
  // Removes a running or waiting sequence and frees its slot and blocks.
  void Remove(Sequence& sequence);

  std::span<Sequence* const> running() const { return running_; }
  std::span<Sequence* const> waiting() const { return waiting_; }
  // Sets the call for every sequence that is preempted.
  void set_on_preempt(std::function<void(Sequence&)> call) { on_preempt_ = std::move(call); }

 private:
  void Admit();
  Admission AdmitTo(Sequence& sequence, const DataRankOffer& offer, Clock::time_point now);
  bool FindOffers(Sequence& sequence);
  int DataRank(const Sequence& sequence) const { return caches_.data_ranks().Owner(sequence.slot); }
  std::int64_t NumberRunning(int data_rank) const;
  Sequence* LastOn(int data_rank) const;
  std::int64_t DecodingShare(int data_rank, int n_running) const;
  void PlanDecoding(StepPlan& plan, int n_running, std::int64_t most_tokens);
  void PlanPrompts(StepPlan& plan);
  std::int64_t PromptBudget(const StepPlan& plan) const;
  std::int64_t PromptTokens(const Sequence& sequence) const;
  void TakeMemory(StepPlan& plan);
  bool TakeMemory(Sequence& sequence, std::int64_t n_tokens);
  void Free(Sequence& sequence, bool finished);
  void Preempt(Sequence& sequence);
  void PreemptPaused();
  bool HasReader(const Sequence& sequence) const;
  bool CanDecode(const Sequence& sequence) const;

  CacheManager& caches_;
  const ModelLimits limits_;
  const SchedulerOptions options_;
  EngineMetrics& metrics_;
  std::function<void(Sequence&)> on_preempt_;
  std::vector<Sequence*> waiting_;  // by rank
  std::vector<Sequence*> running_;  // by rank
  DataRankSlots slots_;
  // Scratch of Admit and Plan.
  std::vector<DataRankOffer> offers_;
  // By data rank.
  std::vector<PrefixHit> hits_;
  std::vector<std::int64_t>
      promised_;  // free slots reserved for sequences that wait for another's blocks
  std::vector<std::int64_t> n_decoding_;  // sequences that may still be added to this step
  std::vector<std::int64_t> n_prompts_;
  double decode_seconds_ = 0;        // moving average of steps without prompts
  double prompt_token_seconds_ = 0;  // moving average of the additional time per prompt token
};

}  // namespace fathom::engine
