#include "engine/draft_chooser.h"

#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::engine {
namespace {

// A step refills this part of a balance below the first one.
constexpr double kRefill = 0.004;
// Drafts are allowed again from this balance on.
constexpr double kAllowedAgain = 0.5;
// Gains are saved up to this balance, so that a few wrong drafts in a row do not end drafts that
// pay.
constexpr double kMostSaved = 10;
// Limits the charge of one step and the lowest balance, because a step can be slow by accident.
constexpr double kMostCharged = 2.5;
constexpr double kLowest = -0.5;

// Steps without drafts that are timed before the first draft.
constexpr std::int64_t kReferences = 8;
// After this many steps with drafts, one step has none, so that the comparison stays true; earlier
// if drafts gain less than kClose.
constexpr std::int64_t kMostInARow = 64;
constexpr std::int64_t kMostIfClose = 16;
constexpr double kClose = 1.05;
// Trials may lose this share of the steps. At least kLeastDistance choices lie between them.
constexpr double kTrialShare = 0.006;
constexpr double kLeastDistance = 32;
// The newest sample has a weight of at least 1 / these.
constexpr double kTimes = 16;
constexpr double kFactors = 32;
constexpr double kVerified = 256;
constexpr double kDrift = 10;
// Samples that are kept where newer ones say more: of factors after a step without drafts, and of
// such steps after the time has drifted.
constexpr double kKeptFactors = 8;
constexpr double kKeptTimes = 4;
// A step counts for at most this multiple of its expected time: the rest is an accident.
constexpr double kSlowest = 1.5;
// The time of a draft for every sequence where bytes are unknown, and the least time of drafts.
constexpr double kUnknownDraft = 0.3;
constexpr double kLeastTime = 0.001;
// The share of right drafts is taken to be that of the draft before, and 1/2 at first.
constexpr double kPriorShare = 0.5;
constexpr double kPriorWeight = 2;
// The error of a time that was never measured; it falls with the root of the samples.
constexpr double kDoubt = 0.15;

double Number(std::int64_t n) { return static_cast<double>(n); }

std::size_t Depth(std::int64_t n_sequences, std::int64_t n_drafts) {
  return static_cast<std::size_t>(DivideUp(n_drafts, n_sequences));
}

}  // namespace

std::size_t DraftChooser::FindBucket(std::int64_t n_sequences) {
  Check(n_sequences > 0, "at least one sequence decodes");
  const auto width = std::bit_width(static_cast<std::uint64_t>(n_sequences));
  return std::min(static_cast<std::size_t>(width), kBuckets) - 1;
}

// Returns the time that n_drafts add to a step by their bytes, in steps without drafts.
double DraftChooser::Bytes(std::int64_t n_sequences, std::int64_t n_drafts) const {
  const DraftCosts& costs = options_.costs;
  if (!costs.IsKnown()) return kUnknownDraft * Number(n_drafts) / Number(n_sequences);
  double bytes = costs.StepBytes(n_sequences + n_drafts);
  if (!options_.drafting_is_free) {
    bytes += costs.DraftBytes(n_sequences, DivideUp(n_drafts, n_sequences));
  }
  return std::max(bytes / costs.StepBytes(n_sequences) - 1, kLeastTime);
}

// Returns the factor of the nearest measured depth, the shallower of two, at the nearest measured
// number of sequences; 1 if nothing was measured.
double DraftChooser::Factor(std::size_t bucket, std::size_t depth) const {
  for (std::size_t far = 0; far < kBuckets; ++far) {
    for (const std::size_t b : {bucket - far, bucket + far}) {  // wraps below 0
      if (b >= kBuckets) continue;
      const auto& factors = buckets_[b].factors;
      for (std::size_t near = 0; near < kDepths; ++near) {
        for (const std::size_t k : {depth - near, depth + near}) {
          if (k < kDepths && factors[k].weight > 0) return factors[k].value;
        }
      }
    }
  }
  return 1;
}

// Numbers much larger than all before are left out: their time is a guess.
DraftChooser::Rates DraftChooser::Estimate(const Choice& choice, std::size_t bucket) const {
  Rates rates = {.expected = {1}, .hoped = {kClose}};
  rates.n = std::min({static_cast<std::size_t>(choice.most) + 1, 2 * deepest_ + 2, kDepths});
  const double part = Number(choice.n_drafting) / Number(choice.n_sequences);
  double share = kPriorShare;
  double all_right = part;
  double all_hoped = part;
  double tokens = 1;
  double hoped = 1;
  for (std::size_t k = 1; k < rates.n; ++k) {
    const auto index = static_cast<std::size_t>(choice.first_index) + k - 1;
    const RunningAverage& right = right_[std::min(index, kIndices - 1)];
    share = (right.value * right.weight + share * kPriorWeight) / (right.weight + kPriorWeight);
    tokens += all_right *= share;
    hoped += all_hoped *= std::min(share + 1 / std::sqrt(right.weight + 1), 1.0);
    const std::int64_t n_drafts = choice.n_drafting * static_cast<std::int64_t>(k);
    const std::size_t depth = Depth(choice.n_sequences, n_drafts);
    const double time = 1 + Factor(bucket, depth) * Bytes(choice.n_sequences, n_drafts);
    const double doubt = kDoubt / std::sqrt(buckets_[bucket].factors[depth].weight + 1);
    rates.expected[k] = tokens / time;
    rates.hoped[k] = hoped / time * (1 + doubt);
    if (rates.expected[k] > rates.expected[rates.best]) rates.best = k;
  }
  return rates;
}

// Tries one of the numbers that could be the best: two out of three times the one that is expected
// to lose least, otherwise the next one in turn. If there are none, tries one draft more than the
// best: everything may have changed. Returns the best number if a trial makes no sense.
std::size_t DraftChooser::StartTrial(const Rates& rates) {
  const double best_rate = rates.expected[rates.best];
  std::size_t found = rates.n;
  for (std::size_t i = 1; i <= rates.n; ++i) {
    const std::size_t k = (trial_ + i) % rates.n;
    if (k == rates.best || rates.hoped[k] < best_rate) continue;
    const bool is_better =
        found < rates.n && n_trials_ % 3 != 2 && rates.expected[k] > rates.expected[found];
    if (found == rates.n || is_better) found = k;
  }
  if (found == rates.n && deepest_ == 0) return rates.best;  // bytes forbid all drafts
  ++n_trials_;
  trial_ = found < rates.n ? found : std::min(rates.best + 1, rates.n - 1);
  trial_choices_left_ = options_.trial_length - 1;
  const double lost = (1 - rates.expected[trial_] / best_rate) * Number(options_.trial_length);
  choices_before_trial_ = std::llround(kLeastDistance + lost / kTrialShare);
  return trial_;
}

std::int64_t DraftChooser::Choose(const Choice& choice) {
  const std::size_t bucket = FindBucket(choice.n_sequences);
  const bool may_draft = !is_vetoed_ && buckets_[bucket].n_without >= kReferences;
  if (!may_draft) trial_choices_left_ = 0;
  if (!may_draft || choice.most <= 0 || n_in_a_row_ >= kMostInARow) return 0;
  if (trial_choices_left_ > 0) {
    --trial_choices_left_;
    return std::min(static_cast<std::int64_t>(trial_), choice.most);
  }
  const Rates rates = Estimate(choice, bucket);
  if (n_in_a_row_ >= kMostIfClose && rates.expected[rates.best] < kClose) return 0;
  const bool tries = --choices_before_trial_ <= 0;
  return static_cast<std::int64_t>(tries ? StartTrial(rates) : rates.best);
}

void DraftChooser::RecordStep(const DraftStep& step) {
  const bool has_drafts = step.n_drafts > 0 || !step.is_uniform;
  n_in_a_row_ = has_drafts ? n_in_a_row_ + 1 : 0;
  if (!(step.seconds > 0)) return;
  const std::size_t index = FindBucket(step.n_sequences);
  Bucket& bucket = buckets_[index];
  // In units of the bytes, because a bucket covers several numbers of sequences.
  const DraftCosts& costs = options_.costs;
  const double seconds = step.seconds / (costs.IsKnown() ? costs.StepBytes(step.n_sequences) : 1);
  const bool is_comparable = has_drafts && bucket.without.weight > 0;
  const double steps = is_comparable ? seconds / bucket.without.value : 0;
  if (is_comparable) {
    const double lost = std::min(steps - step.n_tokens, kMostCharged);
    balance_ = std::clamp(balance_ - lost, kLowest, kMostSaved);
  }
  if (step.is_uniform && balance_ < options_.first_balance) {
    balance_ = std::min(balance_ + kRefill * step.n_tokens, options_.first_balance);
  }
  is_vetoed_ = balance_ < (is_vetoed_ ? kAllowedAgain : 0);
  if (!step.is_uniform) return;
  if (!has_drafts) RecordWithout(bucket, seconds);
  if (is_comparable) RecordDrafts(index, step, steps);
}

void DraftChooser::RecordWithout(Bucket& bucket, double seconds) {
  RunningAverage& without = bucket.without;
  if (seconds < without.value / 2) without = {};  // a step can be slow by accident, but not fast
  without.Add(without.weight > 0 ? std::min(seconds, kSlowest * without.value) : seconds, kTimes);
  ++bucket.n_without;
  for (RunningAverage& factor : bucket.factors) {
    factor.weight = std::min(factor.weight, kKeptFactors);
  }
}

// A time that changes in use is taken to change for all numbers of drafts, until a step without
// drafts shows which part of it is theirs.
void DraftChooser::RecordDrafts(std::size_t bucket, const DraftStep& step, double steps) {
  const std::size_t depth = std::min(Depth(step.n_sequences, step.n_drafts), kDepths - 1);
  const double bytes = Bytes(step.n_sequences, step.n_drafts);
  const double expected = 1 + Factor(bucket, depth) * bytes;
  steps = std::min(steps, kSlowest * expected);
  deepest_ = std::max(deepest_, depth);
  RunningAverage& factor = buckets_[bucket].factors[depth];
  if (factor.weight < kFactors) return factor.Add((steps - 1) / bytes, kFactors);
  RunningAverage& without = buckets_[bucket].without;
  without.value *= 1 + (steps / expected - 1) / kDrift;
  without.weight = std::min(without.weight, kKeptTimes);
}

void DraftChooser::RecordVerification(std::int64_t index, bool is_right) {
  Check(index >= 0, "index of a draft");
  right_[std::min(static_cast<std::size_t>(index), kIndices - 1)].Add(is_right ? 1 : 0, kVerified);
}

double DraftChooser::LeastChance(std::int64_t n_sequences, std::int64_t depth) const {
  const DraftCosts& costs = options_.costs;
  if (!costs.IsKnown()) return 0;
  return (costs.StepBytes(n_sequences * (1 + depth)) - costs.StepBytes(n_sequences * depth)) /
         costs.StepBytes(n_sequences);
}

}  // namespace fathom::engine
