// DraftConfidence: estimates the chance that a draft is right from the drafter's confidence
// (docs/spec/mtp.md 2.5 point 5) and the recently verified drafts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "engine/draft_chooser.h"

namespace fathom::engine {

// Allocates nothing. One thread at a time.
class DraftConfidence {
 public:
  // Records whether a draft with this confidence (a logit) was right. All drafts before it were
  // right.
  void RecordVerification(float confidence, bool is_right) {
    right_[FindBin(confidence)].Add(is_right ? 1 : 0, 256);
  }
  // Returns the share of right drafts among the recent ones with about this confidence. Where few
  // were verified, returns the highest likely share.
  double Chance(float confidence) const {
    const RunningAverage& right = right_[FindBin(confidence)];
    return std::min(1.0, right.value + 1 / std::sqrt(right.weight + 1));
  }
  // Returns true if a draft should not be verified. `chance`: the chance that this draft and all
  // before it are right. `least`: the chance from which verification pays. Once in 16 times returns
  // false although the chance is too low, so that a higher acceptance is noticed.
  bool Cuts(double chance, double least) { return chance < least && ++n_cut_ % 16 != 0; }

 private:
  static constexpr std::size_t kBins = 14;  // one per unit of the logit, around 0

  static std::size_t FindBin(float confidence) {
    constexpr float kHalf = kBins / 2;
    const float bin = std::floor(std::clamp(confidence, -kHalf, kHalf)) + kHalf;
    return bin >= 0 ? std::min(static_cast<std::size_t>(bin), kBins - 1) : 0;  // NaN: the lowest
  }

  std::array<RunningAverage, kBins> right_;
  std::int64_t n_cut_ = 0;
};

}  // namespace fathom::engine
