// LossBalance: bounds what drafts may lose, whatever the reason, in steps without drafts.
#pragma once

#include <algorithm>

namespace fathom {

// Begins with a few steps, grows by a small part of each step and by what drafts gain, and pays for
// the time that steps with drafts take beyond the time in which steps without drafts would have
// given as many tokens. While it is used up, there are no drafts. One thread at a time.
class LossBalance {
 public:
  // first: what may be lost at first.
  explicit LossBalance(double first) : first_(first), balance_(first) {}

  // A step gives back a part of what was lost; n_tokens: that it gave each sequence.
  void GiveBack(double n_tokens) {
    if (balance_ < first_) balance_ = std::min(balance_ + kGivenBack * n_tokens, first_);
    is_vetoed_ = is_vetoed_ && balance_ < kAllowedAgain;
  }
  // A step took as long as `steps` without drafts, and gave each sequence n_tokens.
  void Spend(double steps, double n_tokens) {
    balance_ -= std::min(steps - n_tokens, kMostLost);
    balance_ = std::clamp(balance_, kLowest, kMostSaved);
    is_vetoed_ = is_vetoed_ || balance_ < 0;
  }

  // True while there are to be no drafts.
  bool is_vetoed() const { return is_vetoed_; }
  // True while more has been lost than gained and given back.
  bool has_lost() const { return balance_ < first_; }

 private:
  static constexpr double kGivenBack = 0.004;
  static constexpr double kAllowedAgain = 0.5;  // from this balance on
  // Gains are added up to here, so that a few wrong drafts in a row do not end drafts that pay.
  static constexpr double kMostSaved = 10;
  // One step counts for no more, and the balance falls no lower, as a step can take long by
  // accident.
  static constexpr double kMostLost = 4;
  static constexpr double kLowest = -2;

  double first_;
  double balance_;
  bool is_vetoed_ = false;
};

}  // namespace fathom
