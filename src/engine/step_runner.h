// StepRunner: one step of the model: the batch, the logits, the tokens, the drafts.
#ifndef FATHOM_ENGINE_STEP_RUNNER_H_
#define FATHOM_ENGINE_STEP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/draft_policy.h"
#include "engine/language_model.h"
#include "engine/metrics.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace fathom {

struct StepRunnerOptions {
  std::vector<Token> eos_tokens;
  TokenBytes token_bytes;
  bool drafts = false;
  std::int64_t draft_depth = 0;  // 0: chosen by measurement
  std::optional<double> simulated_acceptance;
  std::int64_t max_step_tokens = 1;
};

// Verification (spec/mtp.md 3, spec/sampling.md 3.2): the logits behind every drafted token choose
// the token that follows, by the same noise as without drafts; a draft is right if it is that
// token. So the tokens are those of a run without drafts, and drafts only change how many come from
// a step. One thread, that of the engine.
class StepRunner {
 public:
  StepRunner(LanguageModel& model, StepRunnerOptions options, EngineMetrics& metrics);

  // Called when the first choice of a request has read its prompt: fork(sequence, sample), where
  // sample(other) chooses the first token of another choice from the same logits.
  using SampleOther = std::function<void(Sequence& other)>;
  void set_on_prompt_read(std::function<void(Sequence&, const SampleOther&)> call) {
    on_prompt_read_ = std::move(call);
  }

  // Runs the plan. Tokens go to the streams (unpublished), finished sequences into `finished`. On
  // an error of the model no token of the step exists, and the plan's sequences have lost their
  // caches. A sequence that fails alone ends with kError and is in `finished`.
  Status Run(const StepPlan& plan, std::vector<Sequence*>& finished);
  // Drafts what the next step verifies. Errors as above.
  Status Draft(const StepPlan& plan);
  // The step took so long, drafts included.
  void Took(const StepPlan& plan, double seconds);

  double model_seconds() const { return model_seconds_; }  // since it was made
  std::int64_t n_generated() const { return n_generated_; }

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
  struct Drafting {
    Sequence* sequence = nullptr;
    std::int32_t row = 0;                 // of the last batch of the draft head
    Token token = StreamEvent::kNoToken;  // drafted last
  };

  Status DraftKept(const StepPlan& plan);
  // logits: a row per drafted token and one more.
  void Sample(const PlannedSegment& segment, Matrix<const float> logits,
              std::vector<Sequence*>& finished);
  Sampled SampleOne(Sequence& sequence, std::span<const float> logits, std::optional<Token> draft,
                    std::vector<Sequence*>& finished);
  bool SimulatesRight(const Sequence& sequence) const;
  SamplerState& StateOf(Sequence& sequence);
  std::int64_t DepthOf(const Sequence& sequence, std::int64_t depth) const;
  std::int64_t NextDepth(const StepPlan& plan);
  void AddDraftRows(const PlannedSegment& segment, const Segment& view);
  Status SampleDrafts();
  Status DraftAgain();
  template <class Call>
  auto Timed(const Call& call);

  LanguageModel& model_;
  const StepRunnerOptions options_;
  EngineMetrics& metrics_;
  const ModelLimits limits_;
  std::function<void(Sequence&, const SampleOther&)> on_prompt_read_;
  DraftPolicy policy_;
  Sampler sampler_;
  // Per slot; whose state it is.
  std::vector<std::unique_ptr<SamplerState>> states_;
  std::vector<Owner> owners_;
  TokenLogprobs logprobs_;
  Batch batch_;
  std::vector<Token> tokens_;
  std::vector<std::int32_t> rows_;
  Batch draft_batch_;
  std::vector<std::int32_t> stream_rows_;
  std::vector<Drafting> drafting_;
  std::int64_t depth_ = 0;           // of the drafts of the next step
  std::int64_t verified_depth_ = 0;  // of this step
  double model_seconds_ = 0;
  std::int64_t n_generated_ = 0;
};

}  // namespace fathom

#endif  // FATHOM_ENGINE_STEP_RUNNER_H_
