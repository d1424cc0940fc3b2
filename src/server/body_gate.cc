#include "server/body_gate.h"

#include <algorithm>
#include <chrono>

namespace fathom::server {

BodyGate::Pass BodyGate::Enter(std::size_t n_bytes, const StopFunction& stop) {
  constexpr std::chrono::milliseconds kLook(50);
  n_bytes = std::min(n_bytes, limit_);
  std::unique_lock lock(mutex_);
  const std::uint64_t number = next_number_++;
  waiting_.insert(number);
  const auto may_enter = [&] {
    return *waiting_.begin() == number && n_bytes <= limit_ - n_taken_;
  };
  bool is_stopped = false;
  while (!may_enter() && !is_stopped) {
    changed_.wait_for(lock, kLook);
    lock.unlock();
    is_stopped = stop && stop();
    lock.lock();
  }
  waiting_.erase(number);
  changed_.notify_all();  // another one is the first now
  if (is_stopped) return nullptr;
  n_taken_ += n_bytes;
  return Pass(this, {n_bytes});
}

void BodyGate::GiveBack(std::size_t n_bytes) {
  const std::lock_guard lock(mutex_);
  n_taken_ -= n_bytes;
  changed_.notify_all();
}

}  // namespace fathom::server
