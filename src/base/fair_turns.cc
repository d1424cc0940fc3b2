#include "base/fair_turns.h"

#include <chrono>

namespace fathom {

void FairTurns::Add(FairTurn& turn) {
  if (turn.ticket_ == 0) turn.ticket_ = waiting_.NewTicket();
  waiting_.Add(turn.owner_, turn.ticket_, &turn);
  n_waiting_.fetch_add(1, std::memory_order_relaxed);
}

void FairTurns::Remove(FairTurn& turn) {
  waiting_.Remove(turn.owner_, turn.ticket_);
  n_waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void FairTurns::GiveBack(FairTurn& turn) {
  turn.is_given_ = false;
  waiting_.GiveBack(turn.owner_);
  ++n_free_;
}

void FairTurns::GiveOut() {
  while (n_free_ > 0) {
    const std::optional<FairTurn*> next = waiting_.Take(per_owner_);
    if (!next) return;
    --n_free_;
    n_waiting_.fetch_sub(1, std::memory_order_relaxed);
    (*next)->is_given_ = true;
    (*next)->given_.notify_one();  // holds the lock, because without it the turn may be destroyed
  }
}

bool FairTurn::Enter(const StopFunction& stop) {
  if (has_place_) return true;
  std::unique_lock lock(turns_.mutex_);
  turns_.Add(*this);
  turns_.GiveOut();
  return WaitForPlace(lock, stop);
}

bool FairTurn::GoOn(const StopFunction& stop) {
  if (!has_place_) return Enter(stop);
  if (turns_.n_waiting() == 0 || !slice_.HasRun(kSliceSeconds)) return true;
  std::unique_lock lock(turns_.mutex_);
  if (!turns_.waiting_.HasFavoured(owner_)) return true;
  has_place_ = false;
  turns_.Add(*this);
  turns_.GiveBack(*this);
  turns_.GiveOut();
  return WaitForPlace(lock, stop);
}

void FairTurn::Leave() {
  if (!has_place_) return;
  has_place_ = false;
  const std::lock_guard lock(turns_.mutex_);
  turns_.GiveBack(*this);
  turns_.GiveOut();
}

bool FairTurn::WaitForPlace(std::unique_lock<std::mutex>& lock, const StopFunction& stop) {
  constexpr std::chrono::milliseconds kLook(100);
  while (!is_given_) {
    given_.wait_for(lock, kLook);
    if (is_given_ || !stop) continue;
    lock.unlock();
    const bool is_stopped = stop();
    lock.lock();
    if (!is_stopped) continue;
    if (is_given_) {
      turns_.GiveBack(*this);
      turns_.GiveOut();
    } else {
      turns_.Remove(*this);
    }
    return false;
  }
  has_place_ = true;
  slice_ = ThreadWatch();
  return true;
}

}  // namespace fathom
