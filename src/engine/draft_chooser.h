// DraftChooser: chooses how many tokens to draft for a step.
//
// Let c_i be the share of i-th drafts that are right once the drafts before them are. A step in
// which m of D sequences verify k drafts each yields, for each sequence,
//
//   tokens(k) = 1 + (m / D) (c_1 + c_1 c_2 + ... + c_1 ... c_k)
//
// tokens, and takes, in units of a step without drafts, the time
//
//   time(k) = 1 + factor(k) bytes(k)
//
// Here bytes(k) are the bytes that m k drafts add to the step (model/draft/draft_costs.h), and
// factor(k) says how long this machine takes for them, by measurement. The best k has the largest
// tokens(k) / time(k).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "model/draft/draft_costs.h"

namespace fathom::engine {

// An average in which the newest sample has a weight of at least 1 / most_weight.
struct RunningAverage {
  double value = 0;
  double weight = 0;  // number of samples, decayed

  void Add(double sample, double most_weight) {
    weight = std::min(weight + 1, most_weight);
    value += (sample - value) / weight;
  }
};

// The measurement of a step without prompts.
struct DraftStep {
  std::int64_t n_sequences = 0;  // sequences that decoded
  std::int64_t n_drafts = 0;     // drafts of all sequences
  // The step verified n_drafts drafts and drafted as many for the next step. The time of any other
  // step is charged only.
  bool is_uniform = true;
  double n_tokens = 1;  // average yield for each sequence
  double seconds = 0;   // 0: not measured
};

// Times steps without drafts first, and one after every 64 steps with drafts. Tries another number
// than the best now and then, as long as it could be the best.
//
// A balance limits the total loss by drafts, for any reason, in steps without drafts. It begins
// with a few steps, and grows by a small part of each step and by the gain of drafts. A step with
// drafts is charged its time beyond the time in which steps without drafts would have yielded its
// tokens. While the balance is used up, there are no drafts.
//
// The choices depend on nothing but the calls. Allocates nothing. One thread at a time.
class DraftChooser {
 public:
  struct Options {
    DraftCosts costs{};             // if unknown, every draft is taken to cost as much
    bool drafting_is_free = false;  // drafts cost nothing but their verification
    double first_balance = 1.75;
    std::int64_t trial_length = 5;  // consecutive choices of a trial
  };
  // The drafts of a step, or of a part of its sequences.
  struct Choice {
    std::int64_t n_sequences = 0;  // sequences that decode
    std::int64_t n_drafting = 0;   // sequences that draft as many tokens as are chosen
    std::int64_t first_index = 0;  // index of the first draft, as in RecordVerification
    std::int64_t most = 0;
  };

  explicit DraftChooser(const Options& options)
      : options_(options), balance_(options.first_balance) {}

  // Returns how many tokens to draft, 0 to choice.most.
  std::int64_t Choose(const Choice& choice);

  // Records a step, also one without drafts: drafts are compared with such steps.
  void RecordStep(const DraftStep& step);
  // Records whether the draft at `index` was right; all drafts before it were. Drafts with equal
  // indices, from 0, are right equally often. A token that was not drafted because it was likely to
  // be wrong counts as not right.
  void RecordVerification(std::int64_t index, bool is_right);

  // Returns the least chance at which the last of `depth` drafts of every sequence is worth its
  // verification: the chance that it and all drafts before it are right. 0 if costs are unknown.
  double LeastChance(std::int64_t n_sequences, std::int64_t depth) const;
  // Returns true while there are no drafts because they have lost too much.
  bool is_vetoed() const { return is_vetoed_; }

 private:
  static constexpr std::size_t kBuckets = 16;  // numbers of sequences, in powers of two
  static constexpr std::size_t kDepths = 9;    // drafts for each sequence
  static constexpr std::size_t kIndices = 14;  // the last for larger ones

  // The measurements of about one number of sequences.
  struct Bucket {
    RunningAverage without;      // seconds of a step without drafts, for each of its bytes
    std::int64_t n_without = 0;  // steps without drafts
    std::array<RunningAverage, kDepths> factors;
  };
  // Tokens in the time of a step without drafts, by the number of drafts.
  struct Rates {
    std::array<double, kDepths> expected;
    std::array<double, kDepths> hoped;  // still likely
    std::size_t n = 0;
    std::size_t best = 0;
  };

  static std::size_t FindBucket(std::int64_t n_sequences);
  double Bytes(std::int64_t n_sequences, std::int64_t n_drafts) const;
  double Factor(std::size_t bucket, std::size_t depth) const;
  Rates Estimate(const Choice& choice, std::size_t bucket) const;
  std::size_t StartTrial(const Rates& rates);
  void RecordWithout(Bucket& bucket, double seconds);
  void RecordDrafts(std::size_t bucket, const DraftStep& step, double steps);

  const Options options_;
  std::array<Bucket, kBuckets> buckets_;
  std::array<RunningAverage, kIndices> right_;  // share of right drafts
  std::size_t deepest_ = 0;                     // the most drafts for each sequence so far
  std::int64_t n_in_a_row_ = 0;                 // steps with drafts since the last step without
  std::int64_t n_trials_ = 0;
  std::size_t trial_ = 0;                  // number of drafts in the last trial
  std::int64_t trial_choices_left_ = 0;    // further choices of this trial
  std::int64_t choices_before_trial_ = 0;  // choices before the next trial
  double balance_;
  bool is_vetoed_ = false;
};

}  // namespace fathom::engine
