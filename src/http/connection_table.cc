#include "http/connection_table.h"

#include <sys/socket.h>

#include <algorithm>

namespace fathom {

std::optional<ConnectionTable::Id> ConnectionTable::Add(int fd) {
  // A closed connection ends at once, unless the machine is starved.
  constexpr std::chrono::seconds kEvictionTime(1);
  std::unique_lock lock(mutex_);
  if (idle_.size() + busy_.size() >= limit_) {
    if (!EvictOldest()) return std::nullopt;
    removed_.wait_for(lock, kEvictionTime,
                      [&] { return is_draining_ || idle_.size() + busy_.size() < limit_; });
  }
  if (is_draining_ || idle_.size() + busy_.size() >= limit_) return std::nullopt;
  return idle_.insert(idle_.end(), Entry{.fd = fd});
}

void ConnectionTable::Remove(Id id) {
  const std::lock_guard lock(mutex_);
  const bool is_idle = id->state != State::kWorking && !id->is_closed;
  (is_idle ? idle_ : busy_).erase(id);
  removed_.notify_all();
}

bool ConnectionTable::EvictOne() {
  const std::lock_guard lock(mutex_);
  return EvictOldest();
}

bool ConnectionTable::EvictOldest() {
  if (idle_.empty()) return false;
  CloseEntry(idle_.begin());
  ++n_evicted_;
  return true;
}

void ConnectionTable::CloseEntry(Id id) {
  if (id->is_closed) return;
  ::shutdown(id->fd, SHUT_RDWR);
  id->is_closed = true;
  if (id->state != State::kWorking) busy_.splice(busy_.end(), idle_, id);
}

bool ConnectionTable::BeginWaiting(Id id) {
  const std::lock_guard lock(mutex_);
  if (id->is_closed || is_draining_) return false;
  if (id->state == State::kWaiting) return true;  // since it came, whenever its thread began
  auto& from = id->state == State::kWorking ? busy_ : idle_;
  id->state = State::kWaiting;
  idle_.splice(idle_.end(), from, id);
  return true;
}

bool ConnectionTable::BeginReading(Id id) {
  const std::lock_guard lock(mutex_);
  if (id->is_closed) return false;
  id->state = State::kReading;
  return true;
}

bool ConnectionTable::BeginWork(Id id) {
  const std::lock_guard lock(mutex_);
  if (id->is_closed) return false;
  id->state = State::kWorking;
  busy_.splice(busy_.end(), idle_, id);
  return true;
}

void ConnectionTable::BeginLingering(Id id) {
  const std::lock_guard lock(mutex_);
  const bool was_working = id->state == State::kWorking;
  id->state = State::kLingering;
  if (was_working && !id->is_closed) idle_.splice(idle_.end(), busy_, id);
}

void ConnectionTable::Drain() {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  for (auto next = idle_.begin(); next != idle_.end();) {
    const Id id = next++;
    if (id->state == State::kWaiting) CloseEntry(id);
  }
  removed_.notify_all();
}

bool ConnectionTable::is_draining() const {
  const std::lock_guard lock(mutex_);
  return is_draining_;
}

void ConnectionTable::Close() {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  while (!idle_.empty()) CloseEntry(idle_.begin());
  for (auto id = busy_.begin(); id != busy_.end(); ++id) CloseEntry(id);
  removed_.notify_all();
}

bool ConnectionTable::WaitUntilEmpty(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return removed_.wait_for(lock, time, [&] { return idle_.empty() && busy_.empty(); });
}

ConnectionTable::Counts ConnectionTable::counts() const {
  const std::lock_guard lock(mutex_);
  const auto n_waiting = std::count_if(idle_.begin(), idle_.end(), [](const Entry& entry) {
    return entry.state == State::kWaiting;
  });
  return {.open = idle_.size() + busy_.size(),
          .waiting = static_cast<std::size_t>(n_waiting),
          .evicted = n_evicted_};
}

}  // namespace fathom
