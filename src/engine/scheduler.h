// Scheduler: which tokens run in the next step.
//
// A step takes every sequence that decodes, with its drafts, and fills what is left of the token
// budget with pieces of prompts: of the first few sequences that read one, in equal shares, so that
// a short prompt is not stuck behind a long one. While others decode, the prompts of a step are as
// long as keeps its time near a target.
//
// Where several steps run at once (the stages of a pipeline), those that decode take turns: each
// step has an equal share of them, none two steps at a time.
//
// Sequences rank by priority, then by arrival. Memory goes to them in that order: where it is
// short, what only the prefix cache holds is given up first, then the lowest-ranked sequence loses
// its slot and waits again, to compute its tokens anew later (or to find them cached). The highest
// always goes on, so the engine never stands still.
//
// Of several data ranks each has memory for its own sequences, which stay there while they have a
// slot; all of this is done for each of them, and a sequence loses its slot to one of the same rank
// only. A waiting sequence goes where most of its text is cached, else where the fewest run
// (data_rank_slots.h). A step waits for the rank with the most tokens, so prompts get their tokens
// in equal shares of ranks first.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/cache_manager.h"
#include "engine/language_model.h"
#include "engine/metrics.h"
#include "engine/ranks/data_rank_slots.h"
#include "engine/sequence.h"

namespace fathom {

struct PlannedSegment {
  Sequence* sequence = nullptr;
  std::int64_t n_tokens = 0;  // behind sequence->computed
  std::int64_t n_drafts = 0;  // behind these
  bool decodes = false;       // it had read all but its last token before
  bool samples = false;       // its last token's logits choose the next token
};

struct StepPlan {
  std::vector<PlannedSegment> segments;
  std::int64_t n_decoding = 0;
  std::int64_t n_prompt_tokens = 0;  // of sequences that do not decode
};

struct SchedulerOptions {
  std::int64_t max_step_tokens = 0;      // at most the model's
  double target_step_seconds = 0.25;     // of a step with prompts while others decode
  std::int64_t max_events_per_step = 1;  // that a sequence may add in a step
  int n_in_flight = 1;                   // steps that may run at once
};

// Does not own the sequences. One thread, that of the engine.
class Scheduler {
 public:
  Scheduler(CacheManager& caches, const ModelLimits& limits, const SchedulerOptions& options,
            EngineMetrics& metrics);

  void Add(Sequence& sequence);
  // Decides what runs next, beside n_running steps; `plan` is empty if nothing can, or not before
  // one of these ends.
  void Plan(StepPlan& plan, int n_running);
  // Sequences that decode in the step just planned or in those that run.
  std::int64_t DecodingNow() const;
  // How long that took, for the length of prompts in later steps.
  void RecordStepTime(const StepPlan& plan, double seconds);
  // A slot for a copy of `sequence`, which runs; false: it has to wait like others.
  bool Fork(const Sequence& from, Sequence& to);
  // Takes a sequence out, wherever it is, and gives back what it holds.
  void Remove(Sequence& sequence);

  std::span<Sequence* const> running() const { return running_; }
  std::span<Sequence* const> waiting() const { return waiting_; }
  // Called with every sequence that loses its slot.
  void set_on_preempt(std::function<void(Sequence&)> call) { on_preempt_ = std::move(call); }

 private:
  void Admit();
  Admission AdmitTo(Sequence& sequence, const DataRankOffer& offer, Clock::time_point now);
  bool FindOffers(Sequence& sequence);
  int RankOf(const Sequence& sequence) const { return caches_.data_ranks().OwnerOf(sequence.slot); }
  std::int64_t NumberRunning(int data_rank) const;
  Sequence* LastOn(int data_rank) const;
  std::int64_t DecodingShare(int data_rank, int n_running) const;
  void PlanDecoding(StepPlan& plan, int n_running);
  void PlanPrompts(StepPlan& plan);
  std::int64_t PromptBudget(const StepPlan& plan) const;
  bool TakeMemory(Sequence& sequence, std::int64_t n_tokens);
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
  std::vector<std::int64_t> promised_;    // free slots for those that wait for another's blocks
  std::vector<std::int64_t> n_decoding_;  // that may begin in this step
  std::vector<std::int64_t> n_prompts_;
  double decode_seconds_ = 0;        // of a step without prompts, lately
  double prompt_token_seconds_ = 0;  // more for each token of a prompt, lately
};

}  // namespace fathom
