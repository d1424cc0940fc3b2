// DraftConfidence: estimates the chance that a draft is right from the drafter's confidence
// (docs/spec/mtp.md 2.5 point 5) and the recently verified drafts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fathom {

// Allocates nothing. One thread at a time.
class DraftConfidence {
 public:
  // Records whether a draft with this confidence (a logit) was right. All drafts before it were
  // right.
  void Verified(float confidence, bool right);
  // Returns the share of right drafts among the recent ones with about this confidence. Where few
  // were verified, returns the highest likely share.
  double Chance(float confidence) const;
  // Returns true if a draft should not be verified. `chance`: the chance that this draft and all
  // before it are right. `least`: the chance from which verification pays. Now and then returns
  // false although the chance is too low, so that a higher acceptance is noticed.
  bool Cuts(double chance, double least);

 private:
  static constexpr std::size_t kBins = 14;  // one per unit of the logit, around 0
  struct Bin {
    double right = 0;
    double weight = 0;  // number of observations, decayed
  };
  static std::size_t FindBin(float confidence);

  std::array<Bin, kBins> bins_;
  std::int64_t n_cut_ = 0;
};

}  // namespace fathom
