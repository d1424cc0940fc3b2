// StepRunner: runs the steps of the model: batches, logits, tokens, drafts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/draft_chooser.h"
#include "engine/draft_confidence.h"
#include "engine/engine.h"
#include "engine/metrics.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/simulated_acceptance.h"
#include "model/batch.h"
#include "model/language_model.h"

namespace fathom::engine {

// Counts the running steps of each sequence.
void CountBegun(const StepPlan& plan);
void CountEnded(const StepPlan& plan);

// Consecutive rows of a step whose logits are used together.
struct LogitRows {
  std::size_t segment = 0;     // index in the plan
  std::int32_t first_row = 0;  // index in the batch
  std::int32_t n_rows = 0;
  bool scores = false;  // one row, which scores the next token of the prompt; else the rows choose
  bool needs_logits = false;  // the host reads the logits
};

// A step from its plan to its tokens. Reused, it keeps its memory.
struct RunningStep {
  int slot = 0;       // slot of its logits; running steps have different slots
  bool alone = true;  // no other step runs: its sequences may be drafted
  StepPlan plan;
  Batch batch;
  std::unique_ptr<LayeredPass> pass;  // from BeginPass until the pass has ended
  std::vector<LogitRows> wanted;      // all logits of the step
  std::size_t first_asked = 0;        // the first logits of the last call of StartLogits
  std::size_t end_asked = 0;
  std::vector<std::int32_t> rows;  // rows of these logits
  std::chrono::steady_clock::time_point begun;
  // The times so far, on the engine's thread.
  double seconds = 0;
  double model_seconds = 0;
  double head_seconds = 0;  // time of drafting by the head, for the next step
  std::int64_t n_generated = 0;
  std::int64_t n_lookups = 0;  // looked-up tokens that the step verifies

  // Returns true if another step may begin before this one ends: all logits have been requested.
  bool IsAsked() const { return !alone && end_asked == wanted.size(); }
  // Runs a call of the model, and adds its time.
  template <class Call>
  auto Timed(const Call& call) {
    const Clock::time_point start = Clock::now();
    auto result = call();
    model_seconds += SecondsSince(start);
    return result;
  }
};

// Verification (docs/spec/mtp.md 3, docs/spec/sampling.md 3.2): the logits after every drafted
// token choose the next token, with the same noise as without drafts. A draft is right if it is
// that token. So the tokens are equal to the tokens of a run without drafts, and drafts change only
// how many tokens a step yields.
//
// Masks of constraints (docs/spec/constrained.md 3.4, 3.6) are computed by other threads while the
// step runs. If a mask is late, its sequence sits out: it keeps the tokens chosen so far, and a
// later step computes its last position again, with equal logits. Engine thread only.
class StepRunner {
 public:
  // All must outlive this object; options.max_step_tokens is at least 1.
  StepRunner(LanguageModel& model, const EngineOptions& options, EngineMetrics& metrics);

  // Called when the first choice of a request has read its prompt: fork(sequence, sample), where
  // sample(other) chooses the first token of another choice from the same logits.
  using SampleOther = std::function<void(Sequence& other)>;
  void set_on_prompt_read(std::function<void(Sequence&, const SampleOther&)> call) {
    on_prompt_read_ = std::move(call);
  }

  // Runs the plan of `step` and requests its logits. After an error of the model, also in End, the
  // step yields no token, and the plan's sequences have lost their caches. A sequence that fails
  // alone has lost its cache, too; its segment holds the error, and the caller must finish the
  // sequence.
  Status Begin(RunningStep& step);
  // Begin in pieces (LanguageModel::BeginPass): first BeginPass, then ContinuePass
  // until the pass has ended; each call runs a layer. Other steps, whole ones, may run between the
  // calls. Errors as Begin.
  Status BeginPass(RunningStep& step, ShouldStop should_stop);
  Result<PassProgress> ContinuePass(RunningStep& step);
  // Chooses the tokens of a step that has begun, for the sequences that have not finished
  // meanwhile. Adds them to the streams (unpublished), and finished sequences to `finished`. A
  // sequence that fails alone ends with kError and is in `finished`.
  Status End(RunningStep& step, std::vector<Sequence*>& finished);
  // Call after End for a step that runs alone: drafts tokens for the next step to verify. Errors as
  // End.
  Status Draft(RunningStep& step);
  // Counts the experts that the model has read from disk.
  std::optional<StreamingCounts> Streaming() const { return model_.Streaming(); }
  // Records that the step took step.seconds, drafts included.
  void RecordStepTime(const RunningStep& step);
  // Returns true if the step should run alone when n_decoding sequences decode in all. With an
  // automatic draft depth, a step runs alone if one sequence decodes and no prompt is read, because
  // drafts pay then; with more work, steps in flight pay. With a fixed depth, every step runs
  // alone.
  bool RunsAlone(const StepPlan& plan, std::int64_t n_decoding) const {
    const bool has_one = n_decoding <= 1 && plan.n_prompt_tokens == 0;
    const DraftOptions& draft = options_.draft;
    return limits_.most_in_flight == 1 || (draft.enabled && (draft.depth > 0 || has_one)) ||
           (draft.lookups && (draft.lookup_depth > 0 || has_one));
  }

 private:
  struct Sampled {
    bool goes_on = false;  // the sequence has not finished
    bool draft_is_right = false;
  };
  struct Owner {
    std::int64_t request = -1;
    std::uint32_t choice = 0;
    friend bool operator==(const Owner&, const Owner&) = default;
  };

  // How long rows with logits wait for their masks, before their sequences sit out.
  static constexpr std::chrono::milliseconds kMaskPatience{2};

  Status CommitKept(RunningStep& step);
  void FillBatch(RunningStep& step);
  void CountComputed(RunningStep& step);
  Status AskStep(RunningStep& step);
  void ListWanted(RunningStep& step) const;
  Status AskLogits(RunningStep& step);
  std::span<const SamplingRow> DescribeStep(const RunningStep& step);
  bool IsMaskLate(const RunningStep& step, const PlannedSegment& segment) const;
  void SitOut(Sequence& sequence);
  static void Score(Sequence& sequence, std::int64_t position, std::span<const float> logits);
  // found: a row per drafted token and one more.
  void Sample(RunningStep& step, const PlannedSegment& segment, const ChosenTokens& found,
              std::vector<Sequence*>& finished);
  // choose(state) returns the token of the sequence.
  template <class Choose>
  Sampled SampleOne(RunningStep& step, Sequence& sequence, const Choose& choose,
                    std::optional<Token> draft, std::vector<Sequence*>& finished);
  SamplerState& StateFor(Sequence& sequence);
  std::int64_t LimitDepth(const Sequence& sequence, std::int64_t depth) const;
  static std::int64_t NumberDecoding(const StepPlan& plan);
  std::int64_t NextDepth(std::int64_t n_decoding);
  void AddToCommit(const PlannedSegment& segment, const Segment& view);
  Status Commit(RunningStep& step);
  Status Propose(RunningStep& step);
  // Returns the draft that choose(state, position) makes; kNoDraft if the constraint allows none.
  template <class Choose>
  Token DraftOne(Sequence& sequence, const Choose& choose);
  void TakeDrafts(const DraftLogits& found, std::span<Token> tokens);
  void LookUp(const StepPlan& plan);
  void LookUp(Sequence& sequence, std::int64_t n_decoding);
  bool CutsDrafts(Sequence& sequence, float confidence);
  void CountVerified(const Sequence& sequence, std::int64_t index, bool is_right);
  std::span<const SamplingRow> DescribeDrafts(std::span<const std::int32_t> requests);

  LanguageModel& model_;
  const EngineOptions& options_;
  EngineMetrics& metrics_;
  const ModelLimits limits_;
  std::function<void(Sequence&, const SampleOther&)> on_prompt_read_;
  const std::int64_t most_lookups_;
  DraftChooser head_chooser_;  // chooses how many drafts of the head
  DraftChooser lookup_chooser_;
  DraftConfidence confidence_;
  std::optional<SimulatedAcceptance> acceptance_;
  double least_chance_ = 0;          // least chance at which a draft of the next step is verified
  Clock::time_point mask_deadline_;  // deadline of the rows whose logits were found last
  Sampler sampler_;
  // The state of each slot, and its owner.
  std::vector<std::unique_ptr<SamplerState>> states_;
  std::vector<Owner> owners_;
  TokenLogprobs logprobs_;
  std::vector<Token> tokens_;
  std::vector<SequenceFailure> failed_;  // failures in one call of Forward
  // The rows of one call of the model.
  std::vector<SamplingRow> sampling_;
  std::vector<std::vector<TokenCount>> counts_;  // by row, for its views
  // The tokens of one call of Commit or CommitKept, and the rows of the streams before them.
  Batch commit_;
  std::vector<std::int32_t> stream_rows_;
  // The requests for drafts after this commit, and their sequences.
  std::vector<DraftRequest> requests_;
  std::vector<Sequence*> drafting_;
  std::int64_t depth_ = 0;           // for the head's drafts of the next step
  std::int64_t verified_depth_ = 0;  // for the head's drafts of this step
};

}  // namespace fathom::engine
