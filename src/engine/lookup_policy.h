// LookupPolicy: chooses how many looked-up tokens (prompt_lookup.h) a step verifies.
//
// A looked-up token costs nothing but its row of the step. Its chance of being right depends mainly
// on the length of the text before it that matched. Let c_i be the acceptance of recently verified
// tokens after a match of this length; a token after i right tokens has a match that is longer by
// i. Then n tokens for one of D sequences yield
//
//   gain(n) = c_1 + c_1 c_2 + ... + c_1 ... c_n
//
// more tokens, and make the step longer by cost(D, n), in units of a step without drafts. The best
// n has the largest (1 + gain(n) / D) / (1 + cost(D, n)).
//
// The cost is the cost of the bytes of n more rows (model/draft/draft_costs.h), times a factor
// measured in steps with about as many sequences and rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/loss_balance.h"
#include "model/draft/draft_costs.h"

namespace fathom {

// The measurement of a step without prompts.
struct LookupStep {
  std::int64_t n_sequences = 0;   // sequences that decoded
  std::int64_t n_lookups = 0;     // verified looked-up tokens of all sequences
  bool has_other_drafts = false;  // a head's drafts were verified, too: ignore the time
  double n_tokens = 1;            // average yield for each sequence
  double seconds = 0;
};

// A balance limits the loss by lookups (loss_balance.h); it begins with a step and a half.
// Allocates nothing. One thread at a time.
class LookupPolicy {
 public:
  explicit LookupPolicy(const DraftCosts& costs) : costs_(costs) {}

  // Returns how many of `most` looked-up tokens after a match of n_matching tokens to verify, for
  // one of n_sequences that decode.
  std::int64_t Choose(std::int64_t n_sequences, std::int64_t n_matching, std::int64_t most);

  // Records a step, also one that verified nothing: lookups are compared with such steps.
  void Ran(const LookupStep& step);
  // Records whether a looked-up token was right after a match of n_matching tokens, including the
  // right tokens before it.
  void Verified(std::int64_t n_matching, bool right);

  // Returns true while nothing is looked up because lookups have lost too much.
  bool is_vetoed() const { return balance_.is_vetoed(); }

 private:
  static constexpr std::size_t kSequenceBins = 16;  // powers of two
  static constexpr std::size_t kRowBins = 8;        // powers of two
  static constexpr std::size_t kLengths = 17;       // the last one for longer matches

  // A moving average.
  struct Average {
    double value = 0;
    double weight = 0;  // number of samples, decayed
    void Add(double sample, double most_weight);
  };
  struct Bucket {
    Average without;                        // seconds of a step without drafts
    std::array<Average, kRowBins> factors;  // measured cost over the cost by bytes
    std::int64_t deepest = 0;               // the most tokens per sequence that a step has verified
  };

  double Chance(std::int64_t n_matching) const;
  Bucket& FindBucket(std::int64_t n_sequences);
  // Returns the cost by bytes of n_rows more rows, in steps without drafts.
  double ByBytes(std::int64_t n_sequences, std::int64_t n_rows) const;
  double Factor(const Bucket& bucket, std::int64_t n_rows) const;

  const DraftCosts costs_;
  std::array<Bucket, kSequenceBins> buckets_;
  std::array<Average, kLengths> right_;  // share of right tokens, by the length of the match
  std::int64_t n_in_a_row_ = 0;          // steps with lookups since the last step without
  std::int64_t n_refused_ = 0;           // matches that did not seem to pay
  LossBalance balance_{1.5};
};

}  // namespace fathom
