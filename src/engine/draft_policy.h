// DraftPolicy: how many tokens to draft, by what was measured.
//
// A step that verifies k drafted tokens of each of D sequences yields E(k) = 1 + a1 + a1 a2 + ... +
// a1 ... ak tokens each, where ai is the share of i-th drafted tokens that are right once those
// before them are, and takes the time T(D, k). The best depth has the largest E(k) / T(D, k).
// Drafts of one token pay where (1 + a1) / T(D, 1) > 1 / T(D, 0), which is
//
//   a1 > T(D, 1) / T(D, 0) - 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/metrics.h"

namespace fathom {

// Measures the depths that may pay a few times at each number of sequences (in powers of two),
// takes the best, and tries the others again rarely: what that costs stays below 1 % of the steps.
// A number of sequences not seen before starts from the ratios T(D, k) / T(D, 0) of the nearest
// that was. With depth 0 the best, it is as if there were no drafts. What is chosen depends on
// nothing but the calls. One thread at a time.
class DraftPolicy {
 public:
  // fixed_depth 0: as described; else always that.
  explicit DraftPolicy(std::int64_t fixed_depth);

  // The depth of the next step, 0 to kMaxDraftDepth, in which n_sequences decode.
  std::int64_t Depth(std::int64_t n_sequences);

  // A step of n_sequences that all decode (no prompts beside them) took `seconds` in all, its own
  // drafting included, at this depth.
  void Measured(std::int64_t n_sequences, std::int64_t depth, double seconds);
  // The drafted token at `index` (0 the first) was verified, after those before it were right.
  void Verified(std::int64_t index, bool right);

  // Share of drafted tokens at `index` that were right lately.
  double Acceptance(std::int64_t index) const;

 private:
  static constexpr std::size_t kDepths = kMaxDraftDepth + 1;
  static constexpr std::size_t kBuckets = 16;

  // One depth at one number of sequences.
  struct Cost {
    double seconds = 0;          // of a step, lately; 0: not known
    double least = 0;            // what it may have become since it was measured; 0: never was
    std::int64_t n_samples = 0;  // none, but with seconds: borrowed, or moved far with others
    std::int64_t last_step = 0;  // of the bucket, at which it was measured
  };
  struct Bucket {
    std::array<Cost, kDepths> costs;
    bool borrowed = false;
    bool measured = false;
    std::int64_t best = 0;
    std::int64_t n_steps = 0;
    // A trial: the same other depth for some steps. An interval of 0: the first tries still last.
    std::int64_t trial_depth = 0;
    std::int64_t trial_steps_left = 0;
    double trial_expected = 0;  // the cost before it
    std::int64_t trial_interval = 0;
    std::int64_t next_trial = 0;  // not before this step
  };
  struct Share {
    double right = 0;
    double weight = 0;  // in observations
    std::int64_t last_step = 0;
  };

  Bucket& BucketOf(std::int64_t n_sequences);
  void Borrow(Bucket& bucket) const;
  // E(k) by what was observed, or the most that is still likely.
  double Yield(std::size_t depth, bool hopeful) const;
  double Rate(const Bucket& bucket, std::size_t depth) const;
  bool CouldBeBest(const Bucket& bucket, std::size_t depth) const;
  std::int64_t FirstTry(const Bucket& bucket) const;
  static void Enter(Cost& cost, double seconds, std::int64_t step);
  void DoubtOthers(Bucket& bucket, std::size_t depth, double seconds) const;
  void MoveOthers(Bucket& bucket, std::size_t depth, double factor) const;
  void MeasureAnew(Bucket& bucket, std::size_t but_depth) const;
  void ChooseBest(Bucket& bucket) const;
  void StartTrial(Bucket& bucket) const;
  void EndTrial(Bucket& bucket) const;

  std::int64_t fixed_depth_;
  std::array<Bucket, kBuckets> buckets_;
  std::array<Share, kMaxDraftDepth> shares_;
  std::int64_t n_steps_ = 0;
  double trial_budget_ = 0;  // what trials may cost, in steps of the best depth
};

}  // namespace fathom
