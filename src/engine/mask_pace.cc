#include "engine/mask_pace.h"

namespace fathom::engine {

MaskPool::Pace::Pace(MaskPool& pool, const PendingMask& mask, bool is_slow)
    : pool_(pool), mask_(mask) {
  if (is_slow) BecomeSlow();
}

bool MaskPool::Pace::GoesOn() {
  if (!pool_.IsNeeded(mask_)) return false;
  if (waits_) return true;
  if (!is_slow() && watch_.HasRun(kSlowSeconds)) {
    if (pool_.MoveToSlow(mask_)) {
      BecomeSlow();
    } else {
      watch_ = ThreadWatch();  // starts a new watch, to try again
    }
  }
  if (!is_slow()) return true;
  return slow_turn_->GoOn([this] { return !pool_.IsNeeded(mask_); });
}

void MaskPool::Pace::BeginWait() {
  waits_ = true;
  if (is_slow()) {
    Leave();
  } else {
    pool_.LeaveQuick(mask_);
  }
}

// A slow thread takes a slow place again when it continues. A quick thread continues without delay:
// others may wait for the lock that it has now acquired.
void MaskPool::Pace::EndWait() {
  waits_ = false;
  if (!is_slow()) pool_.ReturnToQuick(mask_);
}

void MaskPool::Pace::Leave() {
  if (slow_turn_) slow_turn_->Leave();
}

void MaskPool::Pace::BecomeSlow() { slow_turn_.emplace(pool_.slow_places_, mask_.source_->owner); }

bool MaskPool::AskersPace::GoesOn() {
  const auto now = wait_begin_ ? Clock::now() - *wait_begin_ : Clock::duration();
  has_ended_ = has_ended_ || waited_ + now >= kLongestWait || watch_.HasRun(kLongestSeconds);
  return !has_ended_;
}

void MaskPool::AskersPace::EndWait() {
  waited_ += Clock::now() - *wait_begin_;
  wait_begin_.reset();
}

}  // namespace fathom::engine
