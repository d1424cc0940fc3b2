// LookupPolicy: chooses how many looked-up tokens (prompt_lookup.h) a step verifies.
//
// A looked-up token costs nothing but its row of the step. Whether it is right depends most on how
// much of the text before it matched: with c_i, the share of right tokens among those verified
// lately behind so long a match (a token behind i others that are right has a match that is longer
// by i), n tokens of one of D sequences yield
//
//   gain(n) = c_1 + c_1 c_2 + ... + c_1 ... c_n
//
// further tokens, and make the step longer by cost(D, n), in units of a step without drafts. The
// best n has the largest (1 + gain(n) / D) / (1 + cost(D, n)).
//
// The cost is that of the bytes of further rows (model/draft/draft_costs.h), times a factor that
// steps have shown for about as many sequences and rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/loss_balance.h"
#include "model/draft/draft_costs.h"

namespace fathom {

// A step without prompts, as it was.
struct LookupStep {
  std::int64_t n_sequences = 0;   // that decoded
  std::int64_t n_lookups = 0;     // looked-up tokens that it verified, of all sequences
  bool has_other_drafts = false;  // it verified drafts of a head too: its time says nothing
  double n_tokens = 1;            // that it gave each sequence on average
  double seconds = 0;
};

// A balance bounds what lookups lose (loss_balance.h); it begins with a step and a half. Allocates
// nothing. One thread at a time.
class LookupPolicy {
 public:
  explicit LookupPolicy(const DraftCosts& costs) : costs_(costs) {}

  // Returns how many of `most` looked-up tokens behind a match of n_matching tokens to verify, for
  // one of n_sequences that decode.
  std::int64_t Choose(std::int64_t n_sequences, std::int64_t n_matching, std::int64_t most);

  // Records a step, also one that verified nothing: those are what lookups are compared with.
  void Ran(const LookupStep& step);
  // Records that a looked-up token behind a match of n_matching tokens (the right tokens before it
  // included) was right, or was not.
  void Verified(std::int64_t n_matching, bool right);

  // True while nothing is looked up because lookups have lost too much.
  bool is_vetoed() const { return balance_.is_vetoed(); }

 private:
  static constexpr std::size_t kSequenceBins = 16;  // powers of two
  static constexpr std::size_t kRowBins = 8;        // powers of two
  static constexpr std::size_t kLengths = 17;       // the last one for longer ones

  // A moving average.
  struct Average {
    double value = 0;
    double weight = 0;  // in samples
    void Add(double sample, double most_weight);
  };
  struct Bucket {
    Average without;                        // seconds of a step without drafts
    std::array<Average, kRowBins> factors;  // of the cost by bytes
    std::int64_t deepest = 0;               // tokens per sequence that a step has verified
  };

  double Chance(std::int64_t n_matching) const;
  Bucket& FindBucket(std::int64_t n_sequences);
  // The cost of further rows by bytes, in steps without drafts.
  double ByBytes(std::int64_t n_sequences, std::int64_t n_rows) const;
  double Factor(const Bucket& bucket, std::int64_t n_rows) const;

  const DraftCosts costs_;
  std::array<Bucket, kSequenceBins> buckets_;
  std::array<Average, kLengths> right_;  // share of right tokens, by the length of the match
  std::int64_t n_in_a_row_ = 0;          // steps with lookups since one without
  std::int64_t n_refused_ = 0;           // matches that did not seem to pay
  LossBalance balance_{1.5};
};

}  // namespace fathom
