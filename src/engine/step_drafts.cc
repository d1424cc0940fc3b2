// The part of StepRunner that drafts: how many tokens, from which source, and with what gain.
#include <algorithm>
#include <functional>

#include "engine/step_runner.h"

namespace fathom::engine {

void StepRunner::CountVerified(const Sequence& sequence, std::int64_t index, bool is_right) {
  if (sequence.n_matching > 0) {
    lookup_chooser_.RecordVerification(sequence.n_matching - PromptLookup::kShortest + index,
                                       is_right);
    metrics_.CountLookup(index, is_right);
    return;
  }
  head_chooser_.RecordVerification(index, is_right);
  metrics_.CountDraft(index, is_right);
  if (index < std::ssize(sequence.draft_confidences)) {
    confidence_.RecordVerification(sequence.draft_confidences[static_cast<std::size_t>(index)],
                                   is_right);
  }
}

// Limits the depth to the tokens that fit and are of use: the last token of an answer is never
// computed.
std::int64_t StepRunner::LimitDepth(const Sequence& sequence, std::int64_t depth) const {
  const std::int64_t tokens_left = sequence.request.max_tokens - sequence.n_generated();
  return std::max<std::int64_t>(
      std::min({depth, tokens_left - 1, limits_.max_context - sequence.size()}), 0);
}

std::int64_t StepRunner::NumberDecoding(const StepPlan& plan) {
  return std::ranges::count_if(plan.segments, [](const PlannedSegment& segment) {
    return !segment.sequence->IsFinished() && segment.sequence->IsDecoding();
  });
}

std::int64_t StepRunner::NextDepth(std::int64_t n_decoding) {
  if (n_decoding == 0) return 0;
  const std::int64_t most = std::min({limits_.max_draft_depth, limits_.rollback_tokens,
                                      options_.max_step_tokens / n_decoding - 1});
  if (options_.draft.depth > 0) return std::min(options_.draft.depth, most);
  return head_chooser_.Choose({.n_sequences = n_decoding, .n_drafting = n_decoding, .most = most});
}

// Adds the rows of the last step whose next token is known. Rows of decoding sequences are useful
// only if they will be drafted; rows of a prompt are kept for sequences that share it.
void StepRunner::AddToCommit(const PlannedSegment& segment, const Segment& view) {
  Sequence& sequence = *segment.sequence;
  const std::int64_t first = view.first_position;
  const std::int64_t end = std::min(sequence.computed, sequence.size() - 1);
  const bool is_of_use = !segment.decodes || depth_ > 0;
  sequence.draft_key_waits = is_of_use && end < sequence.computed;
  if (!is_of_use || end <= first) return;
  const std::span<const Token> next =
      std::span<const Token>(sequence.tokens)
          .subspan(static_cast<std::size_t>(first + 1), static_cast<std::size_t>(end - first));
  commit_.Add(sequence.slot, view.first_position, next);
  for (std::int64_t i = 0; i < end - first; ++i) {
    stream_rows_.push_back(view.first_row + static_cast<std::int32_t>(i));
  }
  const std::int64_t n_drafts = LimitDepth(sequence, depth_);
  if (sequence.IsDecoding() && n_drafts > 0 && sequence.drafts.empty()) {
    requests_.push_back({static_cast<std::int32_t>(commit_.n_tokens() - 1), n_drafts});
    drafting_.push_back(&sequence);
  }
  sequence.draft_confidences.clear();
  sequence.draft_chance = 1;
  sequence.drafts_are_cut = false;
}

// Commits the tokens of this step to the drafter, and lists the requests for drafts after them.
Status StepRunner::Commit(RunningStep& step) {
  commit_.Clear();
  stream_rows_.clear();
  requests_.clear();
  drafting_.clear();
  for (const PlannedSegment& segment : step.plan.segments) {
    if (!segment.failure && !segment.sequence->IsFinished()) {
      AddToCommit(segment, step.batch.View().segments[segment.in_batch]);
    }
  }
  if (commit_.n_tokens() == 0) return {};
  return step.Timed(
      [&] { return model_.CommitToDrafter(commit_, stream_rows_, StreamSource::kForward); });
}

// Drafts are drawn with the noise of the position, so that a draft that resembles the model makes
// the model's choice (Sampler::Draft).
void StepRunner::TakeDrafts(const DraftLogits& found, std::span<Token> tokens) {
  mask_deadline_ = Clock::now() + kMaskPatience;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Sequence& sequence = *drafting_[static_cast<std::size_t>(found.requests[i])];
    const bool has_confidence = !found.confidences.empty();
    tokens[i] = kNoDraft;
    if (has_confidence && CutsDrafts(sequence, found.confidences[i])) continue;
    tokens[i] = DraftOne(sequence, [&](const SamplerState& state, std::int64_t position) {
      return state.IsConstrained()
                 ? sampler_.Draft(found.logits.RowSpan(static_cast<std::int64_t>(i)), state,
                                  position)
                 : ChosenToken(found.choices[i], state, position);
    });
    if (tokens[i] != kNoDraft) {
      sequence.drafts.push_back(tokens[i]);
      if (has_confidence) sequence.draft_confidences.push_back(found.confidences[i]);
    }
  }
}

// With an automatic depth, each sequence ends its drafts where the next is too likely to be wrong
// (docs/spec/mtp.md 2.5 point 5). The choice does not depend on the draft that would follow.
bool StepRunner::CutsDrafts(Sequence& sequence, float confidence) {
  if (options_.draft.depth > 0) return false;
  const double chance = sequence.draft_chance * confidence_.Chance(confidence);
  sequence.drafts_are_cut = confidence_.Cuts(chance, least_chance_);
  if (!sequence.drafts_are_cut) sequence.draft_chance = chance;
  return sequence.drafts_are_cut;
}

// Under a constraint, a draft must be a token that the constraint allows and that does not end the
// answer: tokens after any other would never be verified (docs/spec/constrained.md 3.6). A late
// mask ends the drafts of the sequence.
template <class Choose>
Token StepRunner::DraftOne(Sequence& sequence, const Choose& choose) {
  SamplerState& state = StateFor(sequence);
  const std::int64_t position = sequence.size() + std::ssize(sequence.drafts);
  ConstraintPath* const constraint = sequence.constraint.get();
  if (constraint != nullptr) {
    if (sequence.drafts.empty()) {
      constraint->ForgetDrafts();
    }
    if (!constraint->WaitUntil(mask_deadline_, sequence.drafts.size())) return kNoDraft;
  }
  const Result<Token> token = choose(state, position);
  if (!token) return kNoDraft;
  if (constraint != nullptr) {
    const Result<AllowedTokens> allowed = state.Allowed(position);
    if (!allowed || !allowed->Has(*token) || state.Ends(*token)) return kNoDraft;
    constraint->AddDraft(*token);
  }
  return *token;
}

// If a match does not pay, the drafter drafts for the sequence.
void StepRunner::LookUp(Sequence& sequence, std::int64_t n_decoding) {
  const std::int64_t most =
      std::min(LimitDepth(sequence, most_lookups_), options_.max_step_tokens / n_decoding - 1);
  const PromptLookup::Found found = sequence.lookup.Find(sequence.tokens, most);
  const std::int64_t fixed = options_.draft.lookup_depth;
  const auto n_found = std::ssize(found.tokens);
  const std::int64_t n =
      fixed > 0 ? std::min<std::int64_t>(fixed, n_found)
                : lookup_chooser_.Choose({.n_sequences = n_decoding,
                                          .n_drafting = 1,
                                          .first_index = found.n_matching - PromptLookup::kShortest,
                                          .most = n_found});
  for (const Token token : found.tokens.first(static_cast<std::size_t>(n))) {
    const auto choose = [token](const SamplerState&, std::int64_t) { return Result<Token>(token); };
    if (DraftOne(sequence, choose) == kNoDraft) break;
    sequence.drafts.push_back(token);
  }
  sequence.n_matching = sequence.drafts.empty() ? 0 : found.n_matching;
}

void StepRunner::LookUp(const StepPlan& plan) {
  const std::int64_t n_decoding = NumberDecoding(plan);
  mask_deadline_ = Clock::now() + kMaskPatience;
  for (const PlannedSegment& segment : plan.segments) {
    Sequence& sequence = *segment.sequence;
    if (!segment.failure && !sequence.IsFinished() && sequence.IsDecoding()) {
      LookUp(sequence, n_decoding);
    }
  }
}

// A lookup costs nothing, and is right more often than a head where the text matches. So lookups
// come first, and the head drafts for the other sequences. The positions of all sequences are
// committed to the head.
Status StepRunner::Draft(RunningStep& step) {
  verified_depth_ = requests_.empty() ? 0 : depth_;
  depth_ = 0;
  requests_.clear();
  step.head_seconds = 0;
  if (!step.alone) return {};
  if (options_.draft.lookups) LookUp(step.plan);
  if (!options_.draft.enabled) return {};
  const Clock::time_point begin = Clock::now();
  const std::int64_t n_decoding = NumberDecoding(step.plan);
  depth_ = NextDepth(n_decoding);
  least_chance_ = depth_ == 0 ? 0 : head_chooser_.LeastChance(n_decoding, depth_);
  Status drafted = Commit(step);
  if (drafted && !requests_.empty()) drafted = Propose(step);
  step.head_seconds = SecondsSince(begin);
  return drafted;
}

Status StepRunner::Propose(RunningStep& step) {
  double choosing = 0;  // seconds counted as the engine's
  const auto describe = [this](std::span<const std::int32_t> requests) {
    return DescribeDrafts(requests);
  };
  const auto choose = [&](const DraftLogits& found, std::span<Token> tokens) {
    const Clock::time_point begin = Clock::now();
    TakeDrafts(found, tokens);
    choosing += SecondsSince(begin);
    return Status();
  };
  Status ran =
      step.Timed([&] { return model_.ProposeDrafts(requests_, describe, std::cref(choose)); });
  step.model_seconds -= choosing;
  return ran;
}

std::span<const SamplingRow> StepRunner::DescribeDrafts(std::span<const std::int32_t> requests) {
  sampling_.clear();
  counts_.resize(std::max(counts_.size(), requests.size()));
  for (const std::int32_t request : requests) {
    Sequence& sequence = *drafting_[static_cast<std::size_t>(request)];
    SamplingRow row = StateFor(sequence).Row(sequence.size() + std::ssize(sequence.drafts), {},
                                             counts_[sampling_.size()]);
    row.is_chosen = sequence.constraint == nullptr;
    row.needs_logits = !row.is_chosen;
    sampling_.push_back(row);
  }
  return sampling_;
}

// A step measures a depth of the drafter if all its sequences decoded, and both verification and
// drafting had that depth. It measures lookups if it verified no other drafts; the drafter's time
// is not part of their cost. A step of 0 seconds is not measured.
void StepRunner::RecordStepTime(const RunningStep& step) {
  const StepPlan& plan = step.plan;
  if (!step.alone || plan.n_prompt_tokens > 0 || plan.n_decoding == 0) return;
  const double n_tokens =
      static_cast<double>(step.n_generated) / static_cast<double>(plan.n_decoding);
  if (options_.draft.lookups) {
    lookup_chooser_.RecordStep(
        {.n_sequences = plan.n_decoding,
         .n_drafts = step.n_lookups,
         .n_tokens = n_tokens,
         .seconds = verified_depth_ == 0 ? step.seconds - step.head_seconds : 0});
  }
  if (!options_.draft.enabled) return;
  DraftStep head = {.n_sequences = plan.n_decoding,
                    .n_drafts = depth_ * plan.n_decoding,
                    .is_uniform = verified_depth_ == depth_ && (depth_ == 0 || !requests_.empty()),
                    .n_tokens = n_tokens,
                    .seconds = step.seconds};
  if (step.n_lookups > 0) {
    head.is_uniform = verified_depth_ == 0 && depth_ == 0;
    if (verified_depth_ == 0) {
      head.n_tokens = 0;  // lookups yielded the tokens
      head.seconds = depth_ > 0 ? step.head_seconds : 0;
    }
  }
  head_chooser_.RecordStep(head);
}

}  // namespace fathom::engine
