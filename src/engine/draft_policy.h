// DraftPolicy: chooses how many tokens to draft, from measurements.
//
// A step that verifies k drafted tokens for each of D sequences yields E(k) = 1 + a1 + a1 a2 + ...
// + a1 ... ak tokens each, where ai is the share of i-th drafted tokens that are right once the
// tokens before them are, and takes the time T(D, k). The best depth has the largest E(k) / T(D,
// k). Drafts of one token pay if (1 + a1) / T(D, 1) > 1 / T(D, 0), which is
//
//   a1 > T(D, 1) / T(D, 0) - 1.
//
// Before anything is measured, the ratios T(D, k) / T(D, 0) follow from the bytes that such steps
// read (model/draft/draft_costs.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/loss_balance.h"
#include "model/draft/draft_costs.h"

namespace fathom {

// Measures the depths that may pay a few times at each number of sequences (in powers of two), uses
// the best, and tries the others again rarely: the cost of trials stays below 1 % of the steps. A
// new number of sequences starts from the ratios T(D, k) / T(D, 0) of the nearest known number, or
// from the ratios of the bytes.
//
// A balance limits the loss by drafts (loss_balance.h). The depths depend on nothing but the calls.
// One thread at a time.
class DraftPolicy {
 public:
  // max_depth: the depth of the drafter. fixed_depth: always this depth; 0: chosen by measurement.
  DraftPolicy(std::int64_t max_depth, std::int64_t fixed_depth, const DraftCosts& costs = {});

  // Returns the depth, 0 to max_depth, of the next step, in which n_sequences decode.
  std::int64_t Depth(std::int64_t n_sequences);

  // Records the time of a step at this depth, drafting included, in which n_sequences decoded and
  // no prompt was read.
  void Measured(std::int64_t n_sequences, std::int64_t depth, double seconds);
  // Records the tokens and the time of a step without prompts that verified or drafted, at one
  // depth or at two: n_tokens is the average for each of n_sequences. Where Measured is called too,
  // call this first.
  void Spent(std::int64_t n_sequences, double n_tokens, double seconds);
  // Records whether the drafted token at `index` (from 0) was right. A token that was not drafted
  // because it was likely to be wrong counts as not right. The tokens before it were right.
  void Verified(std::int64_t index, bool right);

  // Returns the least chance at which the last of `depth` drafts of every sequence is worth its
  // verification: the chance that it and all drafts before it are right. 0 unless costs follow from
  // the bytes.
  double LeastChance(std::int64_t n_sequences, std::int64_t depth) const;
  // Returns the recent acceptance at `index`.
  double Acceptance(std::int64_t index) const;
  // Returns true while there are no drafts because they have lost too much.
  bool is_vetoed() const { return balance_.is_vetoed(); }

 private:
  static constexpr std::size_t kBuckets = 16;

  // One depth at one number of sequences.
  struct Cost {
    double seconds = 0;          // moving average of a step; 0: unknown
    double least = 0;            // the cost may have fallen to this value; 0: never measured
    std::int64_t n_samples = 0;  // 0 with seconds: borrowed, or to be measured again
    std::int64_t last_step = 0;  // the bucket's step at the last measurement
  };
  struct Bucket {
    std::vector<Cost> costs;       // [depth]
    std::int64_t n_sequences = 0;  // sequences in the first step
    // A step without drafts as measured, for the balance: estimates do not change it.
    Cost without_drafts;
    bool borrowed = false;
    bool measured = false;
    std::int64_t best = 0;
    std::int64_t n_steps = 0;
    // A trial runs another depth for some steps. An interval of 0: the first trials continue.
    std::int64_t trial_depth = 0;
    std::int64_t trial_steps_left = 0;
    double trial_expected = 0;  // the cost before the trial
    std::int64_t trial_interval = 0;
    std::int64_t next_trial = 0;  // not before this step
  };
  struct Share {
    double right = 0;
    double weight = 0;  // number of observations, decayed
  };

  Bucket& FindBucket(std::int64_t n_sequences);
  void Borrow(Bucket& bucket, std::int64_t n_sequences) const;
  void Estimate(Bucket& bucket, double seconds, const Bucket* other) const;
  // Returns E(k) from the observed shares, or the highest E(k) that is still likely.
  double Yield(std::size_t depth, bool hopeful) const;
  double Rate(const Bucket& bucket, std::size_t depth) const;
  bool CouldBeBest(const Bucket& bucket, std::size_t depth) const;
  std::int64_t FirstTry(const Bucket& bucket) const;
  static void Enter(Cost& cost, double seconds, std::int64_t step);
  void DoubtOthers(Bucket& bucket, std::size_t depth, double seconds) const;
  void AddToDeeper(Bucket& bucket, std::size_t depth, double seconds) const;
  void MoveOthers(Bucket& bucket, std::size_t depth, double factor) const;
  void MeasureAnew(Bucket& bucket, std::size_t but_depth) const;
  void ChooseBest(Bucket& bucket) const;
  void StartTrial(Bucket& bucket) const;
  void EndTrial(Bucket& bucket) const;

  std::size_t n_depths_;
  std::int64_t fixed_depth_;
  DraftCosts byte_costs_;
  std::array<Bucket, kBuckets> buckets_;
  std::vector<Share> shares_;  // [index]
  double trial_budget_ = 0;    // allowed cost of trials, in steps of the best depth
  LossBalance balance_;
};

}  // namespace fathom
