#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::engine {
namespace {

constexpr std::int64_t kMostPartialPrompts = 4;
constexpr std::int64_t kLeastPromptTokens = 32;
// Waiting raises the priority of a request by one in this time, so that no request waits forever.
constexpr double kSecondsPerPriority = 10;

bool RanksBefore(const Sequence* a, const Sequence* b) {
  const auto key = [](const Sequence* s) {
    return std::tuple(-s->request.request.priority, s->request.id, s->choice);
  };
  return key(a) < key(b);
}

double RankOfWaiting(const Sequence& sequence, Clock::time_point now) {
  const double waited = std::chrono::duration<double>(now - sequence.request.submitted).count();
  return sequence.request.request.priority + std::floor(waited / kSecondsPerPriority);
}

void InsertByRank(std::vector<Sequence*>& list, Sequence& sequence) {
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, RanksBefore), &sequence);
}

}  // namespace

Scheduler::Scheduler(CacheManager& caches, const ModelLimits& limits,
                     const SchedulerOptions& options, EngineMetrics& metrics)
    : caches_(caches),
      limits_(limits),
      options_(options),
      metrics_(metrics),
      slots_(limits.max_sequences, caches.data_ranks()),
      hits_(static_cast<std::size_t>(caches.data_ranks().n)),
      promised_(hits_.size()),
      n_decoding_(hits_.size()),
      n_prompts_(hits_.size()) {
  running_.reserve(static_cast<std::size_t>(limits.max_sequences));
  offers_.reserve(hits_.size());
}

void Scheduler::Add(Sequence& sequence) {
  sequence.phase = SequencePhase::kWaiting;
  InsertByRank(waiting_, sequence);
}

std::int64_t Scheduler::NumberRunning(int data_rank) const {
  return std::ranges::count_if(
      running_, [&](const Sequence* sequence) { return DataRank(*sequence) == data_rank; });
}

// Returns the lowest-ranked sequence on the data rank, which must run at least one.
Sequence* Scheduler::LastOn(int data_rank) const {
  return *std::find_if(running_.rbegin(), running_.rend(),
                       [&](const Sequence* sequence) { return DataRank(*sequence) == data_rank; });
}

// Fills offers_ with the data ranks that have a free slot, the best first. Returns false if the
// sequence waits for the rank that will soon share more of its text; a slot is then reserved there.
bool Scheduler::FindOffers(Sequence& sequence) {
  offers_.clear();
  for (int rank = 0; rank < caches_.data_ranks().n; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (slots_.n_free(rank) > promised_[at]) {
      hits_[at] = caches_.Find(sequence, rank, running_);
      offers_.push_back({.data_rank = rank,
                         .n_shared = hits_[at].Most(),
                         .soon = hits_[at].n_soon > 0,
                         .last_chosen = slots_.last_chosen(rank)});
    }
  }
  for (DataRankOffer& offer : offers_) {
    for (const Sequence* other : running_) {
      if (DataRank(*other) == offer.data_rank) {
        offer.n_running += 1;
        offer.n_tokens += other->size();
      }
    }
  }
  SortOffers(offers_);
  if (!offers_.empty() && offers_.front().soon) {
    promised_[static_cast<std::size_t>(offers_.front().data_rank)] += 1;
    return false;
  }
  return true;
}

Admission Scheduler::AdmitTo(Sequence& sequence, const DataRankOffer& offer,
                             Clock::time_point now) {
  const Admission admission =
      caches_.Admit(sequence, slots_.Next(offer.data_rank),
                    hits_[static_cast<std::size_t>(offer.data_rank)], offer.n_running);
  if (admission != Admission::kAdmitted) return admission;
  slots_.Take(offer.data_rank);
  slots_.Choose(offer.data_rank);
  sequence.phase = SequencePhase::kRunning;
  if (!sequence.request.started) {
    sequence.request.started = now;
    sequence.request.stats.cached_tokens = sequence.computed;
    metrics_.Add(&MetricsSnapshot::cached_tokens, sequence.computed);
  }
  InsertByRank(running_, sequence);
  return admission;
}

// Admits by rank, with requests that have waited long moved forward. A sequence that does not fit
// blocks the sequences after it; otherwise it might never fit. A sequence that waits for another's
// blocks does not block them.
void Scheduler::Admit() {
  if (waiting_.empty()) return;
  if (!slots_.HasFree()) {
    PreemptPaused();
  }
  const Clock::time_point now = Clock::now();
  std::stable_sort(waiting_.begin(), waiting_.end(), [now](const Sequence* a, const Sequence* b) {
    return RankOfWaiting(*a, now) > RankOfWaiting(*b, now);
  });
  std::ranges::fill(promised_, 0);
  for (std::size_t i = 0; i < waiting_.size() && slots_.HasFree();) {
    Sequence& sequence = *waiting_[i];
    if (sequence.phase == SequencePhase::kLoading || !HasReader(sequence) ||
        !FindOffers(sequence) || offers_.empty()) {
      ++i;
      continue;
    }
    // Chooses the first data rank that has room.
    Admission admission = Admission::kNoRoom;
    for (std::size_t k = 0; k < offers_.size() && admission == Admission::kNoRoom; ++k) {
      if (!offers_[k].soon) {
        admission = AdmitTo(sequence, offers_[k], now);
      }
    }
    if (admission == Admission::kNoRoom) return;
    if (admission == Admission::kAdmitted) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// Returns false for a sequence whose reader lags too far: the sequence pauses.
bool Scheduler::HasReader(const Sequence& sequence) const {
  const RequestState& request = sequence.request;
  const std::int64_t wanted = request.n_unfinished * (options_.max_events_per_step + 1);
  return request.stream->Room() >= wanted;
}

bool Scheduler::CanDecode(const Sequence& sequence) const {
  return sequence.IsDecoding() && sequence.CanChoose() && HasReader(sequence);
}

std::int64_t Scheduler::DecodingNow() const {
  return std::ranges::count_if(
      running_, [this](const Sequence* s) { return s->AwaitsToken() || CanDecode(*s); });
}

// Returns how many sequences of a data rank decode in the next step: at most an equal share of all
// that decode, and at most an equal share, among the steps that can still begin, of the sequences
// that are ready.
std::int64_t Scheduler::DecodingShare(int data_rank, int n_running) const {
  std::int64_t n_all = 0;
  std::int64_t n_left = 0;
  for (const Sequence* sequence : running_) {
    if (DataRank(*sequence) == data_rank) {
      const bool can_begin = CanDecode(*sequence);
      n_left += can_begin ? 1 : 0;
      n_all += can_begin || sequence->AwaitsToken() ? 1 : 0;
    }
  }
  return std::min(DivideUp(n_all, options_.n_in_flight),
                  DivideUp(n_left, options_.n_in_flight - n_running));
}

void Scheduler::PlanDecoding(StepPlan& plan, int n_running, std::int64_t most_tokens) {
  for (std::size_t rank = 0; rank < n_decoding_.size(); ++rank) {
    n_decoding_[rank] = DecodingShare(static_cast<int>(rank), n_running);
  }
  std::int64_t n_tokens = 0;
  for (Sequence* sequence : running_) {
    std::int64_t& n_left = n_decoding_[static_cast<std::size_t>(DataRank(*sequence))];
    if (n_left > 0 && n_tokens < most_tokens && CanDecode(*sequence)) {
      --n_left;
      const std::int64_t n_drafts =
          std::min<std::int64_t>(std::ssize(sequence->drafts), most_tokens - n_tokens - 1);
      plan.segments.push_back({.sequence = sequence,
                               .n_tokens = 1,
                               .n_drafts = n_drafts,
                               .decodes = true,
                               .samples = true});
      n_tokens += 1 + n_drafts;
    }
  }
}

// Returns the number of tokens left for prompts beside the decoding sequences.
std::int64_t Scheduler::PromptBudget(const StepPlan& plan) const {
  std::int64_t budget = options_.max_step_tokens;
  for (const PlannedSegment& segment : plan.segments) {
    budget -= segment.n_tokens + segment.n_drafts;
  }
  const bool shares_step = DecodingNow() > 0 && limits_.pause_tokens == 0;
  if (shares_step && prompt_token_seconds_ > 0 && options_.target_step_seconds > 0) {
    const double target = std::max(options_.target_step_seconds, 3 * decode_seconds_);
    const double tokens = (target - decode_seconds_) / prompt_token_seconds_;
    budget = std::min(budget, std::max(kLeastPromptTokens, static_cast<std::int64_t>(tokens)));
  }
  return budget;
}

// Returns the number of tokens of a prompt that may be computed now. With several steps in flight,
// a last position is not computed again (StepRunner::IsMaskLate). So the sequence waits for its
// mask first, because the model must not wait.
std::int64_t Scheduler::PromptTokens(const Sequence& sequence) const {
  const bool waits =
      options_.n_in_flight > 1 && sequence.request.max_tokens > 0 && !sequence.HasMask();
  return sequence.n_left() - (waits ? 1 : 0);
}

void Scheduler::PlanPrompts(StepPlan& plan) {
  std::int64_t budget = PromptBudget(plan);
  std::vector<PlannedSegment> prompts;
  std::ranges::fill(n_prompts_, 0);
  const auto prompts_beside = [&](const Sequence& sequence) -> std::int64_t& {
    return n_prompts_[static_cast<std::size_t>(DataRank(sequence))];
  };
  for (Sequence* sequence : running_) {
    if (!sequence->IsDecoding() && PromptTokens(*sequence) > 0 &&
        prompts_beside(*sequence) < kMostPartialPrompts && sequence->CanChoose() &&
        HasReader(*sequence)) {
      prompts.push_back({.sequence = sequence});
      prompts_beside(*sequence) += 1;
    }
  }
  const std::int64_t n_ranks =
      std::ranges::count_if(n_prompts_, [](std::int64_t n) { return n > 0; });
  // Divides the budget equally among the data ranks, then among the prompts of each rank. Tokens
  // that short prompts do not use go to the others.
  bool grew = true;
  while (budget > 0 && grew) {
    grew = false;
    const std::int64_t share_of_rank = budget / std::max<std::int64_t>(1, n_ranks);
    for (PlannedSegment& segment : prompts) {
      const std::int64_t share =
          std::max<std::int64_t>(share_of_rank / prompts_beside(*segment.sequence), 1);
      const std::int64_t left = PromptTokens(*segment.sequence) - segment.n_tokens;
      const std::int64_t more = std::min({left, share, budget});
      segment.n_tokens += more;
      budget -= more;
      grew = grew || more > 0;
    }
  }
  for (PlannedSegment& segment : prompts) {
    if (segment.n_tokens > 0) {
      segment.samples = segment.n_tokens == segment.sequence->n_left();
      plan.segments.push_back(segment);
    }
  }
}

void Scheduler::Preempt(Sequence& sequence) {
  if (on_preempt_) {
    on_preempt_(sequence);
  }
  Free(sequence, false);
  std::erase(running_, &sequence);
  ++sequence.request.stats.preemptions;
  metrics_.Add(&MetricsSnapshot::preemptions);
  Add(sequence);
}

// Preempts a sequence that waits for its reader, so that its slot serves another.
void Scheduler::PreemptPaused() {
  const auto paused = std::find_if(running_.rbegin(), running_.rend(), [this](const Sequence* s) {
    return !HasReader(*s) && !s->AwaitsToken();
  });
  if (paused != running_.rend()) {
    Preempt(**paused);
  }
}

void Scheduler::Free(Sequence& sequence, bool finished) {
  slots_.Return(sequence.slot);
  caches_.Release(sequence, finished);
}

// Extends the sequence's memory, preempting lower-ranked sequences of its data rank. Returns false
// if the memory still does not suffice, or if the lowest-ranked sequence awaits its token or is in
// a pass, and cannot be preempted yet.
bool Scheduler::TakeMemory(Sequence& sequence, std::int64_t n_tokens) {
  while (!caches_.Extend(sequence, n_tokens)) {
    Sequence* last = LastOn(DataRank(sequence));
    if (last == &sequence || last->AwaitsToken() || last->is_in_pass) return false;
    Preempt(*last);
  }
  return true;
}

void Scheduler::Plan(StepPlan& plan, int n_running) {
  plan.segments.clear();
  Admit();
  PlanDecoding(plan, n_running, options_.max_step_tokens);
  PlanPrompts(plan);
  TakeMemory(plan);
  if (limits_.pause_tokens > 0 && plan.n_prompt_tokens > 0) {
    // The other segments decode in the pauses, and have the memory for their next tokens.
    std::erase_if(plan.segments, [](const PlannedSegment& segment) { return segment.decodes; });
    plan.n_decoding = 0;
  }
  metrics_.SetGauges(std::ssize(running_), std::ssize(waiting_));
}

void Scheduler::PlanBesidePass(StepPlan& plan) {
  plan.segments.clear();
  PlanDecoding(plan, 0, limits_.pause_tokens);
  TakeMemory(plan);
}

void Scheduler::BeginPass(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) segment.sequence->is_in_pass = true;
}

void Scheduler::EndPass(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) {
    segment.sequence->is_in_pass = false;
    if (segment.sequence->IsFinished()) Free(*segment.sequence, true);
  }
}

// Gives memory to the sequences of a plan, in the order of their ranks. Sequences that get none
// leave the plan.
void Scheduler::TakeMemory(StepPlan& plan) {
  std::sort(plan.segments.begin(), plan.segments.end(),
            [](const PlannedSegment& a, const PlannedSegment& b) {
              return RanksBefore(a.sequence, b.sequence);
            });
  std::size_t n_kept = 0;
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const PlannedSegment segment = plan.segments[i];
    if (segment.sequence->slot < 0) {
      continue;  // preempted for a sequence before it
    }
    if (!TakeMemory(*segment.sequence, segment.n_tokens + segment.n_drafts)) {
      // Submit has checked that the sequence fits alone. Blocks being read from disk and sequences
      // that await their token can be in the way for a moment.
      const int data_rank = DataRank(*segment.sequence);
      if (NumberRunning(data_rank) > 1 && LastOn(data_rank) == segment.sequence) {
        Preempt(*segment.sequence);
      }
      continue;
    }
    plan.segments[n_kept++] = segment;
  }
  plan.segments.resize(n_kept);
  plan.n_decoding = plan.n_prompt_tokens = 0;
  for (const PlannedSegment& segment : plan.segments) {
    plan.n_decoding += segment.decodes ? 1 : 0;
    plan.n_prompt_tokens += segment.decodes ? 0 : segment.n_tokens;
  }
}

void Scheduler::RecordStepTime(const StepPlan& plan, double seconds) {
  constexpr double kNew = 0.2;
  const auto learn = [](double& average, double value) {
    average = average == 0 ? value : average + kNew * (value - average);
  };
  if (plan.n_prompt_tokens == 0) {
    learn(decode_seconds_, seconds);
  } else {
    const double base = plan.n_decoding > 0 ? std::min(decode_seconds_, seconds) : 0;
    learn(prompt_token_seconds_, (seconds - base) / static_cast<double>(plan.n_prompt_tokens));
  }
}

bool Scheduler::Fork(const Sequence& from, Sequence& to) {
  const int data_rank = DataRank(from);
  if (slots_.n_free(data_rank) == 0) return false;
  to.slot = slots_.Take(data_rank);
  to.phase = SequencePhase::kRunning;
  caches_.Fork(from, to);
  InsertByRank(running_, to);
  return true;
}

void Scheduler::Remove(Sequence& sequence) {
  if (sequence.slot >= 0) {
    if (!sequence.is_in_pass) Free(sequence, true);
    std::erase(running_, &sequence);
  } else {
    std::erase(waiting_, &sequence);
  }
  sequence.phase = SequencePhase::kFinished;
}

}  // namespace fathom::engine
