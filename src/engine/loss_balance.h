// LossBalance: limits the total loss by drafts, for any reason, in steps without drafts.
#pragma once

#include <algorithm>

namespace fathom {

// Begins with a few steps, and grows by a small part of each step and by the gain of drafts. A step
// with drafts is charged its time beyond the time in which steps without drafts would have yielded
// as many tokens. While the balance is used up, there are no drafts. One thread at a time.
class LossBalance {
 public:
  // first: the initial balance.
  explicit LossBalance(double first) : first_(first), balance_(first) {}

  // Refills a part of the loss after a step that yielded n_tokens for each sequence.
  void GiveBack(double n_tokens) {
    if (balance_ < first_) balance_ = std::min(balance_ + kGivenBack * n_tokens, first_);
    is_vetoed_ = is_vetoed_ && balance_ < kAllowedAgain;
  }
  // Charges a step that took as long as `steps` without drafts and yielded n_tokens for each
  // sequence.
  void Spend(double steps, double n_tokens) {
    balance_ -= std::min(steps - n_tokens, kMostLost);
    balance_ = std::clamp(balance_, kLowest, kMostSaved);
    is_vetoed_ = is_vetoed_ || balance_ < 0;
  }

  // Returns true while drafts are forbidden.
  bool is_vetoed() const { return is_vetoed_; }
  // Returns true while losses exceed gains and refills.
  bool has_lost() const { return balance_ < first_; }

 private:
  static constexpr double kGivenBack = 0.004;
  static constexpr double kAllowedAgain = 0.5;  // drafts are allowed again from this balance on
  // Gains are saved up to this balance, so that a few wrong drafts in a row do not end drafts that
  // pay.
  static constexpr double kMostSaved = 10;
  // Limits the charge of one step and the lowest balance, because a step can be slow by accident.
  static constexpr double kMostLost = 4;
  static constexpr double kLowest = -2;

  double first_;
  double balance_;
  bool is_vetoed_ = false;
};

}  // namespace fathom
