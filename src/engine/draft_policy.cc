#include "engine/draft_policy.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fathom {
namespace {

// Another depth must be better by this factor: noise is not worth a change.
constexpr double kHysteresis = 1.05;
// An estimated cost may be too high by this factor.
constexpr double kDoubt = 1.1;
// A trial of drafts this far below its expected cost is no noise: other drafts are cheaper too.
constexpr double kCheaper = 0.8;

// The initial balance, in steps without drafts: drafts may lose this much.
constexpr double kFirstBalance = 1.75;
// The factor by which the cost of a depth that was measured once or twice may be wrong.
constexpr double kDoubtAtFirst = 1.25;
// A first sample above this many steps for each token counts as an accident until it is repeated.
constexpr double kImplausible = 2;

// The samples after which the cost of a depth counts as known, and the samples of depth 0: more,
// because steps without drafts lose nothing, and all other depths are compared with them.
constexpr std::int64_t kFirstSamples = 3;
constexpr std::int64_t kFirstReferences = 8;
// With fewer samples, an average moves because it becomes more exact, not because the cost changes.
constexpr std::int64_t kSettled = 8;
// The newest sample of a cost or of a share has a weight of at least 1 / this.
constexpr double kCostSamples = 16;
constexpr double kShareObservations = 256;
// A sample counts for at most this multiple of the expected cost.
constexpr double kLongest = 1.5;
// The prior of a share: the share of the token before, and 1/2 for the first token.
constexpr double kPriorObservations = 2;

// Trials may cost this share of the steps. The promise is 1 %, but the cost is an estimate. The
// first trials after a change may leave a debt of kMostDebt steps.
constexpr double kTrialShare = 0.006;
constexpr double kMostDebt = 2;
constexpr std::int64_t kTrialSteps = 4;
// Steps between trials. The interval doubles, up to the longest, while trials find depths far below
// the best. A cost that was not measured for the shortest interval counts as kTrialSteps samples at
// most, so that one trial suffices to notice a change.
constexpr std::int64_t kShortestInterval = 32;
constexpr std::int64_t kLongestInterval = 8 * kShortestInterval;

}  // namespace

DraftPolicy::DraftPolicy(std::int64_t max_depth, std::int64_t fixed_depth, const DraftCosts& costs)
    : n_depths_(static_cast<std::size_t>(max_depth) + 1),
      fixed_depth_(fixed_depth),
      byte_costs_(costs),
      shares_(static_cast<std::size_t>(max_depth)),
      balance_(kFirstBalance) {
  Check(fixed_depth >= 0 && fixed_depth <= max_depth, "depth of drafts");
  for (Bucket& bucket : buckets_) bucket.costs.resize(n_depths_);
}

DraftPolicy::Bucket& DraftPolicy::FindBucket(std::int64_t n_sequences) {
  Check(n_sequences > 0, "at least one sequence decodes");
  const auto width =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n_sequences)));
  return buckets_[std::min(width, kBuckets) - 1];
}

// Copies the costs of the nearest measured bucket, scaled by the change of the bytes. A common
// error in all costs leaves the best depth as it is, and the first measurement corrects it. Where
// nothing was measured, the costs follow from the bytes alone.
void DraftPolicy::Borrow(Bucket& bucket, std::int64_t n_sequences) const {
  bucket.n_sequences = n_sequences;
  const auto index = static_cast<std::size_t>(&bucket - buckets_.data());
  for (std::size_t distance = 1; distance < kBuckets; ++distance) {
    for (const std::size_t other : {index - distance, index + distance}) {  // wraps below 0
      if (other >= kBuckets || buckets_[other].costs[0].n_samples == 0) continue;
      Estimate(bucket, buckets_[other].costs[0].seconds, &buckets_[other]);
      bucket.best = buckets_[other].best;
      return;
    }
  }
  if (byte_costs_.IsKnown()) Estimate(bucket, 1, nullptr);
}

// seconds: the time of a step without drafts.
void DraftPolicy::Estimate(Bucket& bucket, double seconds, const Bucket* other) const {
  bucket.borrowed = true;
  for (std::size_t k = 0; k < n_depths_; ++k) {
    const auto depth = static_cast<std::int64_t>(k);
    const double by_bytes = byte_costs_.Ratio(bucket.n_sequences, depth);
    double estimate = seconds * by_bytes;
    if (other != nullptr && (k == 0 || other->costs[k].seconds > 0)) {
      estimate = other->costs[k].seconds * by_bytes / byte_costs_.Ratio(other->n_sequences, depth);
    } else if (!byte_costs_.IsKnown()) {
      estimate = 0;
    }
    bucket.costs[k] = {.seconds = estimate};
  }
}

double DraftPolicy::Yield(std::size_t depth, bool hopeful) const {
  double yield = 1;
  double all_right = 1;
  double prior = 0.5;
  for (std::size_t i = 0; i < depth; ++i) {
    const Share& share = shares_[i];
    const double mean = (share.right * share.weight + prior * kPriorObservations) /
                        (share.weight + kPriorObservations);
    // At most two standard deviations more, as mean * (1 - mean) <= 1/4.
    const double hope = std::min(1.0, mean + 1 / std::sqrt(share.weight + 1));
    all_right *= hopeful ? hope : mean;
    yield += all_right;
    prior = mean;
  }
  return yield;
}

double DraftPolicy::Rate(const Bucket& bucket, std::size_t depth) const {
  const double seconds = bucket.costs[depth].seconds;
  return seconds > 0 ? Yield(depth, false) / seconds : 0;
}

bool DraftPolicy::CouldBeBest(const Bucket& bucket, std::size_t depth) const {
  const Cost& cost = bucket.costs[depth];
  double seconds = 0;
  if (cost.least > 0) {
    const bool is_known = cost.n_samples == 0 || cost.n_samples >= kFirstSamples;
    seconds = std::min(cost.seconds, cost.least) / (is_known ? kDoubt : kDoubtAtFirst);
  } else if (cost.seconds > 0) {
    if (depth == 0) return true;  // the other depths are compared with it
    seconds = cost.seconds / kDoubt;
  } else {
    // A deeper draft is not cheaper.
    for (std::size_t k = 0; k < depth; ++k) seconds = std::max(seconds, bucket.costs[k].seconds);
    seconds /= kDoubt;
  }
  double best = 0;
  for (std::size_t k = 0; k < n_depths_; ++k) best = std::max(best, Rate(bucket, k));
  return Yield(depth, true) > best * seconds;
}

// Returns the depth to try next because too little is known of its cost, or -1. In a bucket that
// borrowed nothing, depth 0 is tried between the others; otherwise a machine that becomes slower or
// faster meanwhile would look like a cost of drafts. In other buckets the depth that is likely to
// be the best comes first, but none much deeper than all tried before: its cost is a guess.
std::int64_t DraftPolicy::FirstTry(const Bucket& bucket) const {
  std::int64_t first = -1;
  std::size_t deepest = n_depths_ - 1;
  while (deepest > 0 && bucket.costs[deepest].least == 0) --deepest;
  for (std::size_t k = 0; k < n_depths_; ++k) {
    const std::int64_t n_samples = bucket.costs[k].n_samples;
    if (k == 0 && n_samples < kFirstReferences) return 0;
    if (n_samples >= kFirstSamples || k == 0) continue;
    const double implausible = kImplausible * static_cast<double>(1 + k) * bucket.costs[0].seconds;
    const bool is_accident = n_samples == 1 && bucket.costs[k].seconds > implausible;
    if (!is_accident && !CouldBeBest(bucket, k)) continue;
    if (!bucket.borrowed) {
      const bool reference_first =
          bucket.costs[0].n_samples < kFirstSamples * static_cast<std::int64_t>(k);
      return reference_first ? 0 : static_cast<std::int64_t>(k);
    }
    if (k > 2 * deepest + 1) break;
    if (first < 0 || Rate(bucket, k) > Rate(bucket, static_cast<std::size_t>(first))) {
      first = static_cast<std::int64_t>(k);
    }
  }
  return first;
}

void DraftPolicy::ChooseBest(Bucket& bucket) const {
  double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best)) * kHysteresis;
  const std::int64_t before = bucket.best;
  for (std::size_t k = 0; k < n_depths_; ++k) {
    const double rate = Rate(bucket, k);
    if (static_cast<std::int64_t>(k) == before || rate <= best_rate) continue;
    best_rate = rate;
    bucket.best = static_cast<std::int64_t>(k);
  }
  if (bucket.best == before && bucket.trial_interval > 0) return;
  bucket.trial_interval = kShortestInterval;
  bucket.next_trial = bucket.n_steps + kShortestInterval;
}

// Doubles the time until the next trial of a depth that proved far from the best.
void DraftPolicy::EndTrial(Bucket& bucket) const {
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  const double rate = Rate(bucket, static_cast<std::size_t>(bucket.trial_depth));
  bucket.trial_interval = rate * kHysteresis > best_rate
                              ? kShortestInterval
                              : std::min(2 * bucket.trial_interval, kLongestInterval);
  bucket.next_trial = bucket.n_steps + bucket.trial_interval;
}

// Begins a trial of the depth that is most overdue, if the budget allows it. Depths near the best
// are tried more often: their trials cost little and may change the choice.
void DraftPolicy::StartTrial(Bucket& bucket) const {
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  const double best_yield = Yield(static_cast<std::size_t>(bucket.best), false);
  double most_overdue = 0;
  for (std::size_t k = 0; k < n_depths_; ++k) {
    if (static_cast<std::int64_t>(k) == bucket.best) continue;
    const std::int64_t n_steps = bucket.best == 0 && k == 1 ? 2 * kTrialSteps : kTrialSteps;
    // An unknown cost is taken to be the cost of the depth before.
    std::size_t known = k;
    while (bucket.costs[known].seconds == 0) --known;
    const double seconds = bucket.costs[known].seconds;
    const double lost = std::max(0.05, 1 - Yield(k, false) / (seconds * best_rate));
    const double price = lost * seconds * best_rate / best_yield * static_cast<double>(n_steps);
    if (price > trial_budget_) continue;
    const auto age = static_cast<double>(bucket.n_steps - bucket.costs[k].last_step);
    if (age / (lost * lost) <= most_overdue) continue;
    most_overdue = age / (lost * lost);
    bucket.trial_depth = static_cast<std::int64_t>(k);
    bucket.trial_steps_left = n_steps;
    bucket.trial_expected = bucket.costs[k].seconds;
  }
}

std::int64_t DraftPolicy::Depth(std::int64_t n_sequences) {
  if (fixed_depth_ > 0) return fixed_depth_;
  Bucket& bucket = FindBucket(n_sequences);
  if (bucket.n_steps == 0) Borrow(bucket, n_sequences);
  ++bucket.n_steps;
  if (is_vetoed()) {
    bucket.trial_steps_left = 0;
    return 0;
  }
  if (bucket.trial_steps_left == 0) {
    const std::int64_t first_try = FirstTry(bucket);
    if (first_try >= 0) return first_try;
    ChooseBest(bucket);
    if (bucket.n_steps < bucket.next_trial) return bucket.best;
    StartTrial(bucket);
    if (bucket.trial_steps_left == 0) return bucket.best;
  }
  const std::int64_t depth = bucket.trial_depth;
  if (--bucket.trial_steps_left == 0) EndTrial(bucket);
  return depth;
}

void DraftPolicy::Measured(std::int64_t n_sequences, std::int64_t depth, double seconds) {
  Check(depth >= 0 && depth < std::ssize(shares_) + 1, "depth of drafts");
  if (fixed_depth_ > 0 || !(seconds > 0)) return;
  Bucket& bucket = FindBucket(n_sequences);
  const auto k = static_cast<std::size_t>(depth);
  Cost& cost = bucket.costs[k];
  if (cost.n_samples > 0) seconds = std::min(seconds, kLongest * cost.seconds);
  trial_budget_ += kTrialShare;
  balance_.GiveBack(Yield(k, false));
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  if (bucket.trial_interval > 0 && depth != bucket.best && !is_vetoed()) {
    // The yield that the best depth would add in this time to the yield of this depth, in steps of
    // the best.
    const double lost = (seconds * best_rate - Yield(k, false)) /
                        Yield(static_cast<std::size_t>(bucket.best), false);
    trial_budget_ = std::max(trial_budget_ - std::max(lost, 0.0), -kMostDebt);
  }

  const double before = cost.seconds;
  if (depth > 0 && bucket.borrowed && cost.least == 0) AddToDeeper(bucket, k, seconds - before);
  Enter(cost, seconds, bucket.n_steps);
  // The first sample shows the common factor of borrowed costs.
  const bool in_use = depth == bucket.best && bucket.trial_interval > 0;
  const bool first = bucket.borrowed && !bucket.measured;
  bucket.measured = true;
  Cost& without = bucket.without_drafts;
  if (depth == 0) {
    Enter(without, seconds, bucket.n_steps);
  } else if (in_use && cost.n_samples > kSettled) {
    without.seconds *= cost.seconds / before;
  }
  if (before > 0 && (in_use || first)) {
    MoveOthers(bucket, k, cost.seconds / before);
  } else if (depth == bucket.trial_depth && cost.seconds < kCheaper * bucket.trial_expected) {
    cost.n_samples = 1;  // earlier samples count little
    DoubtOthers(bucket, k, seconds);
  }
}

void DraftPolicy::Spent(std::int64_t n_sequences, double n_tokens, double seconds) {
  const Cost& without = FindBucket(n_sequences).without_drafts;
  if (fixed_depth_ > 0 || without.n_samples == 0) return;
  balance_.Spend(seconds / without.seconds, n_tokens);
}

void DraftPolicy::Enter(Cost& cost, double seconds, std::int64_t step) {
  if (step - cost.last_step > kShortestInterval) {
    cost.n_samples = std::min(cost.n_samples, kTrialSteps);
  }
  if (cost.n_samples == 0 || seconds < cost.seconds / 2) {
    cost.seconds = seconds;  // a step can be slow by accident, but not fast
    cost.n_samples = 0;
  } else {
    const double weight = 1 / std::min(static_cast<double>(cost.n_samples) + 1, kCostSamples);
    cost.seconds += weight * (seconds - cost.seconds);
  }
  cost.least = cost.seconds;
  ++cost.n_samples;
  cost.last_step = step;
}

// Scales every deeper depth that was never measured by the ratio of this depth's cost to its
// estimate: most likely verified rows cost more than their bytes.
void DraftPolicy::AddToDeeper(Bucket& bucket, std::size_t depth, double seconds) const {
  for (std::size_t k = depth + 1; k < n_depths_ && seconds > 0; ++k) {
    Cost& cost = bucket.costs[k];
    if (cost.least > 0 || cost.seconds == 0) continue;
    cost.seconds += seconds * static_cast<double>(k) / static_cast<double>(depth);
  }
}

// Applies a change of the depth in use (a longer context, another number of sequences within the
// bucket) to the other depths, where it mostly holds, too. `least` keeps the cost before the
// change.
void DraftPolicy::MoveOthers(Bucket& bucket, std::size_t depth, double factor) const {
  for (std::size_t k = 0; k < n_depths_; ++k) {
    if (k != depth) bucket.costs[k].seconds *= factor;
  }
  MeasureAnew(bucket, depth);
}

// Lowers `least` of the other depths after a trial that took far less than expected: everything may
// have become faster, or only the part that drafting adds to a step.
void DraftPolicy::DoubtOthers(Bucket& bucket, std::size_t depth, double seconds) const {
  const double base = bucket.costs[0].seconds;
  const double expected = bucket.trial_expected;
  const double all = seconds / expected;
  const double added =
      expected > base ? std::clamp((seconds - base) / (expected - base), 0.0, 1.0) : 1;
  for (std::size_t k = 0; k < n_depths_; ++k) {
    double& least = bucket.costs[k].least;
    if (k != depth) least = std::min(all * least, base + added * (least - base));
  }
  bucket.trial_expected = seconds;
  MeasureAnew(bucket, depth);
}

// Discards the samples of other depths that would be the best if their cost had fallen to `least`.
void DraftPolicy::MeasureAnew(Bucket& bucket, std::size_t but_depth) const {
  for (std::size_t k = 0; k < n_depths_; ++k) {
    Cost& cost = bucket.costs[k];
    if (k == but_depth || cost.n_samples < kFirstSamples) continue;
    if (cost.seconds > kDoubt * cost.least && CouldBeBest(bucket, k)) cost.n_samples = 0;
  }
}

void DraftPolicy::Verified(std::int64_t index, bool right) {
  Check(index >= 0 && index < std::ssize(shares_), "index of a drafted token");
  Share& share = shares_[static_cast<std::size_t>(index)];
  share.weight = std::min(share.weight + 1, kShareObservations);
  share.right += ((right ? 1.0 : 0.0) - share.right) / share.weight;
}

double DraftPolicy::LeastChance(std::int64_t n_sequences, std::int64_t depth) const {
  if (!byte_costs_.IsKnown()) return 0;
  const double more =
      byte_costs_.StepBytes(n_sequences * (1 + depth)) - byte_costs_.StepBytes(n_sequences * depth);
  return more / byte_costs_.StepBytes(n_sequences);
}

double DraftPolicy::Acceptance(std::int64_t index) const {
  Check(index >= 0 && index < std::ssize(shares_), "index of a drafted token");
  return shares_[static_cast<std::size_t>(index)].right;
}

}  // namespace fathom
