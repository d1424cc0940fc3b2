#include "engine/draft_policy.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fathom {
namespace {

// First tries of a depth: until its cost is known from kFirstSamples, and its last token from
// kFirstObservations or as far as kMostFirstSamples allow (a deep token is rarely verified).
constexpr std::int64_t kFirstSamples = 3;
constexpr std::int64_t kMostFirstSamples = 6;
constexpr std::int64_t kFirstObservations = 16;
// Weight of the newest sample of a cost: 1 / this, once there are so many.
constexpr double kCostSamples = 16;
// A sample counts for at most this multiple of what was expected.
constexpr double kLongest = 1.5;
// The same for shares. After a pause of kStalePause steps what was seen before counts less, in
// costs too, so that the few steps of trials suffice to notice a change.
constexpr double kShareObservations = 256;
constexpr double kStaleObservations = 16;
constexpr std::int64_t kStaleSamples = 4;
constexpr std::int64_t kStalePause = 64;
// A share never observed is taken for that of the token before it; the first for 1/2.
constexpr double kPriorObservations = 2;

// Another depth must be better by this: noise is not worth a change.
constexpr double kHysteresis = 1.02;
// A cost from few samples, and one from another number of sequences, may be too high by this.
constexpr double kCostDoubt = 1.1;
constexpr double kBorrowedDoubt = 1.2;
// How far a cost may move with others before it is doubted.
constexpr double kMoved = 1.15;
// A trial of drafts this far below what was expected is no noise: other drafts are cheaper too.
constexpr double kCheaper = 0.8;

// Trials may cost this share of the steps (the promise is 1 %; what they cost is an estimate), and
// at once at most kMostBudget steps. New tries after a change may leave a debt of kMostDebt steps.
constexpr double kTrialShare = 0.006;
constexpr double kMostBudget = 20;
constexpr double kMostDebt = 2;
constexpr std::int64_t kTrialSteps = 4;
constexpr std::int64_t kTrialStepsWithoutDrafts = 8;  // one observation each, if one sequence runs
constexpr std::int64_t kShortestInterval = 32;
constexpr std::int64_t kLongestInterval = 256;
constexpr double kNearlyBest = 0.95;

}  // namespace

DraftPolicy::DraftPolicy(std::int64_t fixed_depth) : fixed_depth_(fixed_depth) {
  Check(fixed_depth >= 0 && fixed_depth <= kMaxDraftDepth, "depth of drafts");
}

DraftPolicy::Bucket& DraftPolicy::BucketOf(std::int64_t n_sequences) {
  Check(n_sequences > 0, "sequences that decode");
  const auto width =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n_sequences)));
  return buckets_[std::min(width, kBuckets) - 1];
}

// Copies the costs of the nearest bucket that was measured. Too large or too small by the same
// factor, they show the same best depth; the first measurement corrects the factor.
void DraftPolicy::Borrow(Bucket& bucket) const {
  const auto index = static_cast<std::size_t>(&bucket - buckets_.data());
  for (std::size_t distance = 1; distance < kBuckets; ++distance) {
    for (const std::size_t other : {index - distance, index + distance}) {  // wraps below 0
      if (other >= kBuckets || buckets_[other].costs[0].n_samples == 0) continue;
      for (std::size_t k = 0; k < kDepths; ++k) {
        bucket.costs[k] = {.seconds = buckets_[other].costs[k].seconds};
      }
      bucket.best = buckets_[other].best;
      bucket.borrowed = true;
      return;
    }
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
    // Two standard deviations at most, as mean * (1 - mean) <= 1/4.
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
    // Perhaps it did not move with the others.
    seconds = std::min(cost.seconds, cost.least) / kCostDoubt;
  } else if (cost.seconds > 0) {
    if (depth == 0) return true;  // without it nothing can be said about this bucket
    seconds = cost.seconds / kBorrowedDoubt;
  } else {
    // A deeper draft is not cheaper.
    for (std::size_t k = 0; k < depth; ++k) seconds = std::max(seconds, bucket.costs[k].seconds);
    seconds /= kCostDoubt;
  }
  double best = 0;
  for (std::size_t k = 0; k < kDepths; ++k) best = std::max(best, Rate(bucket, k));
  return Yield(depth, true) > best * seconds;
}

// The depth to try next because too little is known of it, or -1. In a bucket that borrowed
// nothing depth 0 comes between the others: a machine that grows slower or faster meanwhile does
// not look like a cost of drafts.
std::int64_t DraftPolicy::FirstTry(const Bucket& bucket) const {
  for (std::size_t k = 0; k < kDepths; ++k) {
    const std::int64_t n_samples = bucket.costs[k].n_samples;
    const bool begun = n_samples > 0 && n_samples < kFirstSamples;
    const bool unsure = n_samples < kFirstSamples ||
                        (k > 0 && shares_[k - 1].weight < kFirstObservations &&
                         n_samples < (k == 1 ? kFirstObservations : kMostFirstSamples));
    if (!begun && !(unsure && CouldBeBest(bucket, k))) continue;
    const bool reference_first =
        !bucket.borrowed &&
        bucket.costs[0].n_samples < kFirstSamples * static_cast<std::int64_t>(k);
    return reference_first ? 0 : static_cast<std::int64_t>(k);
  }
  return -1;
}

void DraftPolicy::ChooseBest(Bucket& bucket) const {
  double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best)) * kHysteresis;
  const std::int64_t before = bucket.best;
  for (std::size_t k = 0; k < kDepths; ++k) {
    const double rate = Rate(bucket, k);
    if (static_cast<std::int64_t>(k) == before || rate <= best_rate) continue;
    best_rate = rate;
    bucket.best = static_cast<std::int64_t>(k);
  }
  if (bucket.best == before && bucket.trial_interval > 0) return;
  bucket.trial_interval = kShortestInterval;
  bucket.next_trial = bucket.n_steps + kShortestInterval;
}

// A depth that proved far from the best is tried again after twice the time.
void DraftPolicy::EndTrial(Bucket& bucket) const {
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  const double rate = Rate(bucket, static_cast<std::size_t>(bucket.trial_depth));
  bucket.trial_interval = rate > kNearlyBest * best_rate
                              ? kShortestInterval
                              : std::min(2 * bucket.trial_interval, kLongestInterval);
  bucket.next_trial = bucket.n_steps + bucket.trial_interval;
}

// Begins a trial of the depth that is most overdue, if there is time for one. Depths near the best
// come more often: a trial of them costs little and may change the choice.
void DraftPolicy::StartTrial(Bucket& bucket) const {
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  const double best_yield = Yield(static_cast<std::size_t>(bucket.best), false);
  double most_overdue = 0;
  for (std::size_t k = 0; k < kDepths; ++k) {
    if (static_cast<std::int64_t>(k) == bucket.best) continue;
    const std::int64_t n_steps =
        bucket.best == 0 && k == 1 ? kTrialStepsWithoutDrafts : kTrialSteps;
    // A cost that was never measured is taken for that of the depth before.
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
  Bucket& bucket = BucketOf(n_sequences);
  if (bucket.n_steps == 0) Borrow(bucket);
  ++n_steps_;
  ++bucket.n_steps;
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
  Check(depth >= 0 && depth <= kMaxDraftDepth, "depth of drafts");
  if (fixed_depth_ > 0 || !(seconds > 0)) return;
  Bucket& bucket = BucketOf(n_sequences);
  const auto k = static_cast<std::size_t>(depth);
  Cost& cost = bucket.costs[k];
  if (cost.n_samples > 0) seconds = std::min(seconds, kLongest * cost.seconds);
  trial_budget_ = std::min(trial_budget_ + kTrialShare, kMostBudget);
  const double best_rate = Rate(bucket, static_cast<std::size_t>(bucket.best));
  if (bucket.trial_interval > 0 && depth != bucket.best) {
    // What the best would have yielded in that time and this did not, in steps of the best.
    const double lost = (seconds * best_rate - Yield(k, false)) /
                        Yield(static_cast<std::size_t>(bucket.best), false);
    trial_budget_ = std::max(trial_budget_ - std::max(lost, 0.0), -kMostDebt);
  }

  const double before = cost.seconds;
  Enter(cost, seconds, bucket.n_steps);
  // Of what was borrowed, the first sample shows the factor.
  const bool in_use = depth == bucket.best && bucket.trial_interval > 0;
  const bool first = bucket.borrowed && !bucket.measured;
  bucket.measured = true;
  if (before > 0 && (in_use || first)) {
    MoveOthers(bucket, k, cost.seconds / before);
  } else if (depth == bucket.trial_depth && cost.seconds < kCheaper * bucket.trial_expected) {
    cost.n_samples = 1;  // what was before counts little
    DoubtOthers(bucket, k, seconds);
  }
}

void DraftPolicy::Enter(Cost& cost, double seconds, std::int64_t step) {
  if (step - cost.last_step > kStalePause) {
    cost.n_samples = std::min(cost.n_samples, kStaleSamples);
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

// What the depth in use shows (a longer context, another number of sequences within the bucket)
// mostly holds for the others too; but they may also have stayed what they were.
void DraftPolicy::MoveOthers(Bucket& bucket, std::size_t depth, double factor) const {
  for (std::size_t k = 0; k < kDepths; ++k) {
    if (k != depth) bucket.costs[k].seconds *= factor;
  }
  MeasureAnew(bucket, depth);
}

// A trial took far less than expected: perhaps everything does by now, perhaps what drafting adds
// to a step.
void DraftPolicy::DoubtOthers(Bucket& bucket, std::size_t depth, double seconds) const {
  const double base = bucket.costs[0].seconds;
  const double expected = bucket.trial_expected;
  const double all = seconds / expected;
  const double added =
      expected > base ? std::clamp((seconds - base) / (expected - base), 0.0, 1.0) : 1;
  for (std::size_t k = 0; k < kDepths; ++k) {
    double& least = bucket.costs[k].least;
    if (k != depth) least = std::min(all * least, base + added * (least - base));
  }
  bucket.trial_expected = seconds;
  MeasureAnew(bucket, depth);
}

// Forgets the samples of depths other than this whose cost may be far less by now, if that would
// make them the best.
void DraftPolicy::MeasureAnew(Bucket& bucket, std::size_t but_depth) const {
  for (std::size_t k = 0; k < kDepths; ++k) {
    Cost& cost = bucket.costs[k];
    if (k == but_depth || cost.n_samples < kFirstSamples) continue;
    if (cost.seconds > kMoved * cost.least && CouldBeBest(bucket, k)) cost.n_samples = 0;
  }
}

void DraftPolicy::Verified(std::int64_t index, bool right) {
  Check(index >= 0 && index < kMaxDraftDepth, "index of a drafted token");
  Share& share = shares_[static_cast<std::size_t>(index)];
  if (n_steps_ - share.last_step > kStalePause) {
    share.weight = std::min(share.weight, kStaleObservations);
  }
  share.last_step = n_steps_;
  share.weight = std::min(share.weight + 1, kShareObservations);
  share.right += ((right ? 1.0 : 0.0) - share.right) / share.weight;
}

double DraftPolicy::Acceptance(std::int64_t index) const {
  Check(index >= 0 && index < kMaxDraftDepth, "index of a drafted token");
  return shares_[static_cast<std::size_t>(index)].right;
}

}  // namespace fathom
