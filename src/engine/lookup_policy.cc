#include "engine/lookup_policy.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom {
namespace {

// Steps without drafts that are timed before the first lookup.
constexpr double kReferences = 8;
// After this many steps with lookups, one step has none, so that the comparison stays true.
constexpr std::int64_t kMostInARow = 64;
// The newest time and the newest factor have a weight of at least 1 / this.
constexpr double kTimes = 16;
constexpr double kFactors = 8;
// A step counts for at most this multiple of its expected time: the rest is an accident.
constexpr double kSlowest = 1.5;
// A row's cost where bytes are unknown, and the least cost, in units of a sequence's part of a
// step.
constexpr double kUnknownRow = 0.3;
constexpr double kLeastRow = 0.001;
// The newest token after matches of a length has a weight of at least 1 / this.
constexpr double kVerified = 64;
constexpr double kPriorVerified = 2;
// One in this many matches that do not seem to pay is verified while nothing has been lost, so that
// lower costs or a higher acceptance are noticed.
constexpr std::int64_t kRefusedPerTrial = 32;

double Number(std::int64_t n) { return static_cast<double>(n); }

// Returns the bin of a number: powers of two, the last bin for all larger numbers.
std::size_t PowerBin(std::int64_t n, std::size_t n_bins) {
  Check(n > 0, "at least one sequence or row");
  const auto width = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n)));
  return std::min(width, n_bins) - 1;
}

std::size_t LengthBin(std::int64_t n_matching, std::size_t n_bins) {
  return std::min(static_cast<std::size_t>(n_matching), n_bins - 1);
}

}  // namespace

void LookupPolicy::Average::Add(double sample, double most_weight) {
  weight = std::min(weight + 1, most_weight);
  value += (sample - value) / weight;
}

// The prior: half of the matches of 3 tokens, and nine in ten of 15, are followed by the same
// token.
double LookupPolicy::Chance(std::int64_t n_matching) const {
  const Average& right = right_[LengthBin(n_matching, kLengths)];
  const double prior = 1 - 1.5 / Number(n_matching);
  return (right.value * right.weight + prior * kPriorVerified) / (right.weight + kPriorVerified);
}

LookupPolicy::Bucket& LookupPolicy::FindBucket(std::int64_t n_sequences) {
  return buckets_[PowerBin(n_sequences, kSequenceBins)];
}

double LookupPolicy::ByBytes(std::int64_t n_sequences, std::int64_t n_rows) const {
  const double cost =
      costs_.IsKnown() ? costs_.StepBytes(n_sequences + n_rows) / costs_.StepBytes(n_sequences) - 1
                       : kUnknownRow * Number(n_rows) / Number(n_sequences);
  return std::max(cost, kLeastRow);
}

// Returns the factor of the nearest measured number of rows; 1: nothing was measured.
double LookupPolicy::Factor(const Bucket& bucket, std::int64_t n_rows) const {
  const std::size_t bin = PowerBin(n_rows, kRowBins);
  for (std::size_t distance = 0; distance < kRowBins; ++distance) {
    for (const std::size_t other : {bin - distance, bin + distance}) {  // wraps below 0
      if (other < kRowBins && bucket.factors[other].weight > 0) return bucket.factors[other].value;
    }
  }
  return 1;
}

std::int64_t LookupPolicy::Choose(std::int64_t n_sequences, std::int64_t n_matching,
                                  std::int64_t most) {
  const Bucket& bucket = FindBucket(n_sequences);
  if (most <= 0 || is_vetoed() || n_in_a_row_ >= kMostInARow ||
      bucket.without.weight < kReferences) {
    return 0;
  }
  most = std::min(most, 2 * bucket.deepest + 1);  // the cost of many more rows is a guess
  std::int64_t best = 0;
  double best_rate = 1;
  double all_right = 1;
  double gain = 0;
  for (std::int64_t n = 1; n <= most; ++n) {
    all_right *= Chance(n_matching + n - 1);
    gain += all_right;
    const double cost = Factor(bucket, n) * ByBytes(n_sequences, n);
    const double rate = (1 + gain / Number(n_sequences)) / (1 + cost);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = n;
  }
  const bool is_trial = best == 0 && ++n_refused_ % kRefusedPerTrial == 0;
  return is_trial && !balance_.has_lost() ? 1 : best;
}

void LookupPolicy::Ran(const LookupStep& step) {
  if (step.n_lookups == 0) n_in_a_row_ = 0;
  if (!(step.seconds > 0) || step.has_other_drafts) return;
  Bucket& bucket = FindBucket(step.n_sequences);
  balance_.GiveBack(step.n_tokens);
  // In units of the bytes that the step reads, because a bucket covers several numbers of
  // sequences.
  const double seconds = step.seconds / (costs_.IsKnown() ? costs_.StepBytes(step.n_sequences) : 1);
  Average& without = bucket.without;
  if (step.n_lookups == 0) {
    if (seconds < without.value / 2) without = {};  // a step can be slow by accident, but not fast
    without.Add(without.weight > 0 ? std::min(seconds, kSlowest * without.value) : seconds, kTimes);
    return;
  }
  ++n_in_a_row_;
  if (without.weight == 0) return;
  bucket.deepest = std::max(bucket.deepest, DivideUp(step.n_lookups, step.n_sequences));
  const double steps = seconds / without.value;
  const double by_bytes = ByBytes(step.n_sequences, step.n_lookups);
  const double longest = kSlowest * (1 + Factor(bucket, step.n_lookups) * by_bytes);
  bucket.factors[PowerBin(step.n_lookups, kRowBins)].Add(
      std::max(std::min(steps, longest) - 1, 0.0) / by_bytes, kFactors);
  balance_.Spend(steps, step.n_tokens);
}

void LookupPolicy::Verified(std::int64_t n_matching, bool right) {
  right_[LengthBin(n_matching, kLengths)].Add(right ? 1 : 0, kVerified);
}

}  // namespace fathom
