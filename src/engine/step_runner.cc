#include "engine/step_runner.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/check.h"

namespace fathom::engine {
namespace {

// Returns true if the logits serve for more than a token (log-probabilities are requested, or other
// choices sample from them too), or if the host chooses the token.
bool NeedsLogits(const Sequence& sequence) {
  const Request& request = sequence.request.request;
  return request.sampling.top_logprobs || (sequence.n_generated() == 0 && request.n_choices > 1) ||
         sequence.constraint != nullptr;
}

}  // namespace

void CountBegun(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) ++segment.sequence->n_steps;
}

void CountEnded(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) --segment.sequence->n_steps;
}

StepRunner::StepRunner(LanguageModel& model, const EngineOptions& options, EngineMetrics& metrics)
    : model_(model),
      options_(options),
      metrics_(metrics),
      limits_(model.Limits()),
      most_lookups_(MostLookedUp(limits_)),
      head_chooser_({.costs = limits_.draft_costs}),
      lookup_chooser_({.costs = limits_.draft_costs,
                       .drafting_is_free = true,
                       .first_balance = 1.5,
                       .trial_length = 1}),
      sampler_(limits_.vocab_size),
      states_(static_cast<std::size_t>(limits_.max_sequences)),
      owners_(states_.size()) {
  for (std::unique_ptr<SamplerState>& state : states_) {
    state = std::make_unique<SamplerState>(limits_.vocab_size);
  }
  if (options.draft.acceptance) acceptance_.emplace(*options.draft.acceptance, limits_.vocab_size);
  commit_.Reserve(limits_.max_batch_tokens, limits_.max_sequences);
  logprobs_.top.reserve(kMaxTopLogprobs);
}

// Rebuilds the state from the tokens if another sequence used the slot, or this sequence had
// another slot before.
SamplerState& StepRunner::StateFor(Sequence& sequence) {
  const auto slot = static_cast<std::size_t>(sequence.slot);
  SamplerState& state = *states_[slot];
  const Owner owner = {.request = sequence.request.id, .choice = sequence.choice};
  if (std::exchange(owners_[slot], owner) != owner ||
      state.n_generated() != sequence.n_generated()) {
    const std::span<const Token> tokens = sequence.tokens;
    state.Begin(sequence.Sampling(), sequence.request.seed,
                tokens.first(static_cast<std::size_t>(sequence.n_prompt)), options_.eos_tokens);
    state.Continue(tokens.subspan(static_cast<std::size_t>(sequence.n_prompt)),
                   sequence.constraint.get());
  }
  return state;
}

// If a step ended in the middle of a prompt, or a sequence began after cached blocks, the last
// computed position is not committed to the drafter until the next token is known.
Status StepRunner::CommitKept(RunningStep& step) {
  commit_.Clear();
  for (const PlannedSegment& segment : step.plan.segments) {
    Sequence& sequence = *segment.sequence;
    if (std::exchange(sequence.draft_key_waits, false)) {
      commit_.Add(sequence.slot, static_cast<std::int32_t>(sequence.computed - 1),
                  {&sequence.tokens[static_cast<std::size_t>(sequence.computed)], 1});
    }
  }
  if (commit_.n_tokens() == 0) return {};
  return step.Timed([&] { return model_.CommitToDrafter(commit_, {}, StreamSource::kKept); });
}

// Lists the logits that the step needs: for prompts to be scored, and for the last tokens.
void StepRunner::ListWanted(RunningStep& step) const {
  step.wanted.clear();
  step.end_asked = 0;
  for (std::size_t i = 0; i < step.plan.segments.size(); ++i) {
    const PlannedSegment& segment = step.plan.segments[i];
    const Sequence& sequence = *segment.sequence;
    if (segment.failure || sequence.IsFinished()) continue;
    const Segment& view = step.batch.View().segments[i];
    const auto first = static_cast<std::int32_t>(
        std::max<std::int64_t>(sequence.FirstUnscored() - view.first_position, 0));
    const auto end = static_cast<std::int32_t>(
        std::min<std::int64_t>(sequence.n_prompt - 1 - view.first_position, view.n_tokens));
    for (std::int32_t row = first; row < end; ++row) {
      step.wanted.push_back({.segment = i,
                             .first_row = view.first_row + row,
                             .n_rows = 1,
                             .scores = true,
                             .needs_logits = true});
    }
    if (segment.samples) {
      const auto n_rows = static_cast<std::int32_t>(segment.n_drafts + 1);
      step.wanted.push_back({.segment = i,
                             .first_row = view.first_row + view.n_tokens - n_rows,
                             .n_rows = n_rows,
                             .needs_logits = NeedsLogits(sequence)});
    }
  }
}

// Requests as many of the next logits as fit into one call.
Status StepRunner::AskLogits(RunningStep& step) {
  step.rows.clear();
  step.first_asked = step.end_asked;
  for (; step.end_asked < step.wanted.size(); ++step.end_asked) {
    const LogitRows& next = step.wanted[step.end_asked];
    if (std::ssize(step.rows) + next.n_rows > limits_.max_logit_rows && !step.rows.empty()) break;
    for (std::int32_t i = 0; i < next.n_rows; ++i) {
      step.rows.push_back(next.first_row + i);
    }
  }
  if (step.rows.empty()) return {};
  return step.Timed([&] {
    return model_.StartTokens(
        step.rows, [this, &step] { return DescribeStep(step); }, step.slot);
  });
}

// A row after drafts chooses as if they were right; otherwise its token is not used.
std::span<const SamplingRow> StepRunner::DescribeStep(const RunningStep& step) {
  sampling_.clear();
  counts_.resize(std::max(counts_.size(), step.rows.size()));
  for (std::size_t k = step.first_asked; k < step.end_asked; ++k) {
    const LogitRows& asked = step.wanted[k];
    Sequence& sequence = *step.plan.segments[asked.segment].sequence;
    for (std::size_t i = 0; i < static_cast<std::size_t>(asked.n_rows); ++i) {
      SamplingRow row = {.rule = {.is_greedy = true}, .is_chosen = false};
      if (!asked.scores && !sequence.IsFinished() && sequence.constraint == nullptr) {
        row = StateFor(sequence).Row(sequence.size() + static_cast<std::int64_t>(i),
                                     std::span<const Token>(sequence.drafts).first(i),
                                     counts_[sampling_.size()]);
      }
      row.needs_logits = asked.needs_logits;
      sampling_.push_back(row);
    }
  }
  return sampling_;
}

Status StepRunner::Begin(RunningStep& step) {
  if (options_.draft.enabled) {
    if (Status committed = CommitKept(step); !committed) return committed;
  }
  FillBatch(step);
  Status ran = step.Timed([&] { return model_.Forward(step.batch, failed_); });
  if (!ran) return ran;
  CountComputed(step);
  return AskStep(step);
}

Status StepRunner::BeginPass(RunningStep& step, ShouldStop should_stop) {
  if (options_.draft.enabled) {
    if (Status committed = CommitKept(step); !committed) return committed;
  }
  FillBatch(step);
  Result<std::unique_ptr<LayeredPass>> begun =
      step.Timed([&] { return model_.BeginPass(step.batch, std::move(should_stop)); });
  if (!begun) return Unexpected(begun.error());
  step.pass = *std::move(begun);
  return {};
}

Result<PassProgress> StepRunner::ContinuePass(RunningStep& step) {
  const Result<PassProgress> progress = step.Timed([&] { return step.pass->Continue(failed_); });
  if (progress && !progress->HasEnded()) return progress;
  step.pass.reset();
  if (!progress) return progress;
  CountComputed(step);
  if (Status asked = AskStep(step); !asked) return Unexpected(asked.error());
  return progress;
}

// Requests the first logits of a step whose layers have run.
Status StepRunner::AskStep(RunningStep& step) {
  ListWanted(step);
  if (Status asked = AskLogits(step); !asked || !options_.draft.enabled || step.alone) return asked;
  // The streams of this step are lost when the next step runs.
  depth_ = 0;
  return Commit(step);
}

void StepRunner::FillBatch(RunningStep& step) {
  step.batch.Clear();
  step.n_lookups = 0;
  for (std::size_t i = 0; i < step.plan.segments.size(); ++i) {
    PlannedSegment& segment = step.plan.segments[i];
    segment.in_batch = i;
    segment.failure.reset();
    const Sequence& sequence = *segment.sequence;
    const auto first = sequence.tokens.begin() + sequence.computed;
    tokens_.assign(first, first + segment.n_tokens);
    tokens_.insert(tokens_.end(), sequence.drafts.begin(),
                   sequence.drafts.begin() + segment.n_drafts);
    step.batch.Add(sequence.slot, static_cast<std::int32_t>(sequence.computed), tokens_);
    if (sequence.n_matching > 0) step.n_lookups += segment.n_drafts;
  }
}

// Counts the tokens of the sequences that have not failed alone.
void StepRunner::CountComputed(RunningStep& step) {
  for (PlannedSegment& segment : step.plan.segments) {
    const auto failure =
        std::ranges::find(failed_, segment.sequence->slot, &SequenceFailure::sequence);
    if (failure == failed_.end()) {
      segment.sequence->computed += segment.n_tokens;
    } else {
      segment.failure = std::move(failure->error);
    }
  }
}

Status StepRunner::End(RunningStep& step, std::vector<Sequence*>& finished) {
  for (;;) {
    Result<ChosenTokens> found = ChosenTokens();
    if (!step.rows.empty()) {
      found = step.Timed([&] { return model_.FinishTokens(step.slot); });
    }
    if (!found) return Unexpected(found.error());
    mask_deadline_ = Clock::now() + kMaskPatience;
    std::int64_t first = 0;
    for (std::size_t i = step.first_asked; i < step.end_asked; ++i) {
      const LogitRows& asked = step.wanted[i];
      const PlannedSegment& segment = step.plan.segments[asked.segment];
      const ChosenTokens rows = {
          .choices = found->choices.subspan(static_cast<std::size_t>(first),
                                            static_cast<std::size_t>(asked.n_rows)),
          .logits = found->logits.Rows(first, asked.n_rows)};
      first += asked.n_rows;
      if (segment.sequence->IsFinished()) continue;
      if (asked.scores) {
        const Segment& view = step.batch.View().segments[asked.segment];
        Score(*segment.sequence, view.first_position + asked.first_row - view.first_row + 1,
              rows.logits.RowSpan(0));
      } else {
        Sample(step, segment, rows, finished);
      }
    }
    if (step.end_asked == step.wanted.size()) return {};
    if (Status asked = AskLogits(step); !asked) return asked;
  }
}

// Adds the log-probabilities of the prompt's token at `position`, unless they are known: a
// preempted sequence may have begun again while its step ran.
void StepRunner::Score(Sequence& sequence, std::int64_t position, std::span<const float> logits) {
  RequestState& request = sequence.request;
  const std::int64_t next = std::ssize(*request.prompt_logprobs) + 1;
  if (position < next) return;
  Check(position == next, "log-probabilities of the prompt in order");
  TokenLogprobs& logprobs = request.prompt_logprobs->emplace_back();
  const Status scored = Sampler::Score(logits, sequence.tokens[static_cast<std::size_t>(position)],
                                       position, *request.request.prompt_logprobs, logprobs);
  if (!scored && !request.prompt_error) {
    request.prompt_error = scored.error();
  }
}

// Waits a little for the next mask of the sequence. A prompt that ends while other steps run may
// already have been shared with other sequences, so its last position is not computed again; its
// mask was computed during the whole prompt.
bool StepRunner::IsMaskLate(const RunningStep& step, const PlannedSegment& segment) const {
  const Sequence& sequence = *segment.sequence;
  if (sequence.constraint == nullptr) return false;
  const bool may_sit_out = limits_.rollback_tokens > 0 && (step.alone || segment.decodes);
  return may_sit_out && !sequence.constraint->WaitUntil(mask_deadline_);
}

// All tokens of the sequence are computed; the last one will be computed again.
void StepRunner::SitOut(Sequence& sequence) {
  --sequence.computed;
  sequence.draft_key_waits = false;
  sequence.sits_out = true;
  metrics_.Add(&MetricsSnapshot::late_masks);
}

template <class Choose>
StepRunner::Sampled StepRunner::SampleOne(RunningStep& step, Sequence& sequence,
                                          const Choose& choose, std::optional<Token> draft,
                                          std::vector<Sequence*>& finished) {
  SamplerState& state = StateFor(sequence);
  Result<Token> token = choose(state);
  if (const std::optional<Error>& error = sequence.request.prompt_error) {
    token = Unexpected(*error);
  }
  if (!token) {
    EndWithoutToken(sequence, FinishReason::kError, token.error());
    finished.push_back(&sequence);
    return {.goes_on = false};
  }
  Sampled sampled = {.goes_on = true, .draft_is_right = draft == *token};
  ++step.n_generated;
  if (AppendToken(sequence, *token, logprobs_, state, options_.token_bytes)) {
    finished.push_back(&sequence);
    sampled.goes_on = false;
  }
  return sampled;
}

void StepRunner::Sample(RunningStep& step, const PlannedSegment& segment, const ChosenTokens& found,
                        std::vector<Sequence*>& finished) {
  Sequence& sequence = *segment.sequence;
  const auto choose = [&](std::int64_t row, const SamplerState& state) {
    if (state.IsConstrained()) {
      return sampler_.Sample(found.logits.RowSpan(row), state, sequence.size(), logprobs_);
    }
    const auto i = static_cast<std::size_t>(row);
    TokenChoice choice = found.choices[i];
    if (acceptance_ && row < segment.n_drafts) {
      choice = acceptance_->Verify(row, sequence.drafts[i], choice);
    }
    const Result<Token> token = ChosenToken(choice, state, sequence.size());
    if (token) Sampler::AddLogprobs(found.logits.RowSpan(row), *token, state, logprobs_);
    return token;
  };
  sequence.sits_out = false;
  if (sequence.request.max_tokens > 0 && IsMaskLate(step, segment)) {
    sequence.drafts.clear();
    SitOut(sequence);
    return;
  }
  if (sequence.choice == 0 && sequence.n_generated() == 0 && on_prompt_read_) {
    on_prompt_read_(sequence, [&](Sequence& other) {
      const auto choose_other = [&](const SamplerState& state) {
        return sampler_.Sample(found.logits.RowSpan(0), state, other.size(), logprobs_);
      };
      SampleOne(step, other, choose_other, std::nullopt, finished);
    });
  }
  if (sequence.request.max_tokens == 0) {
    const std::optional<Error>& error = sequence.request.prompt_error;
    EndWithoutToken(sequence, error ? FinishReason::kError : FinishReason::kLength, error);
    finished.push_back(&sequence);
    return;
  }
  std::int64_t n_right = 0;
  for (std::int64_t i = 0; i <= segment.n_drafts; ++i) {
    if (i > 0 && IsMaskLate(step, segment)) {
      SitOut(sequence);
      break;
    }
    const std::optional<Token> draft =
        i < segment.n_drafts ? std::optional(sequence.drafts[static_cast<std::size_t>(i)])
                             : std::nullopt;
    const Sampled sampled = SampleOne(
        step, sequence, [&](const SamplerState& state) { return choose(i, state); }, draft,
        finished);
    if (draft) CountVerified(sequence, i, sampled.draft_is_right);
    if (sampled.goes_on && !draft && sequence.drafts_are_cut && i == std::ssize(sequence.drafts)) {
      head_chooser_.RecordVerification(i, false);
    }
    if (!sampled.goes_on || !sampled.draft_is_right) break;
    ++sequence.computed;
    ++n_right;
  }
  sequence.request.stats.drafted_tokens += segment.n_drafts;
  sequence.request.stats.accepted_tokens += n_right;
  sequence.drafts.clear();
  sequence.drafts_are_cut = false;
}

}  // namespace fathom::engine
