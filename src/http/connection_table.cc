#include "http/connection_table.h"

#include <sys/socket.h>

#include <algorithm>

namespace fathom::http {

std::optional<ConnectionTable::Id> ConnectionTable::Add(int fd) {
  // A closed connection ends immediately, unless the machine is overloaded.
  constexpr std::chrono::seconds kEvictionTime(1);
  const auto last = std::chrono::steady_clock::now() + kEvictionTime;
  std::unique_lock lock(mutex_);
  while (!is_draining_ && !MayAdd()) {
    // Several connections may have to go: the room may have shrunk by more than one since the last
    // connection arrived, and shrinks further whenever a connection ends its work.
    while (HasTooMany() && EvictOldest()) {
    }
    const auto can_go_on = [&] { return is_draining_ || MayAdd() || HasTooMany(); };
    if (HasTooMany() || !changed_.wait_until(lock, last, can_go_on)) return std::nullopt;
  }
  if (is_draining_) return std::nullopt;
  return idle_.insert(idle_.end(), Entry{.fd = fd});
}

void ConnectionTable::Remove(Id id) {
  const std::lock_guard lock(mutex_);
  const bool is_idle = id->state != State::kWorking && !id->is_closed;
  SetState(id, State::kWaiting);
  (is_idle ? idle_ : busy_).erase(id);
  changed_.notify_all();
}

bool ConnectionTable::EvictOne() {
  const std::lock_guard lock(mutex_);
  return EvictOldest();
}

// Connections that are not at work may use the room below the limit, or as many places as the
// reserve if that is more, because a vital request must arrive before it is known to be vital. The
// reserve is never larger than the number at work, so that an idle server keeps its limit.
std::size_t ConnectionTable::MostOpen() const {
  const std::size_t n_free = limit_ - std::min(limit_, n_working_);
  return n_working_ + std::max(n_free, std::min(reserve_, n_working_));
}

void ConnectionTable::SetState(Id id, State state) {
  if (id->state == State::kWorking) {
    --n_working_;
    changed_.notify_all();
  }
  if (state == State::kWorking) ++n_working_;
  id->state = state;
}

bool ConnectionTable::EvictOldest() {
  if (idle_.empty()) return false;
  if (idle_.front().state != State::kLingering) ++n_evicted_;  // lingering: has its answer
  CloseEntry(idle_.begin());
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
  if (id->state == State::kWaiting) return true;  // waits since its arrival
  auto& from = id->state == State::kWorking ? busy_ : idle_;
  SetState(id, State::kWaiting);
  idle_.splice(idle_.end(), from, id);
  return true;
}

bool ConnectionTable::BeginReading(Id id) {
  const std::lock_guard lock(mutex_);
  if (id->is_closed) return false;
  SetState(id, State::kReading);
  return true;
}

void ConnectionTable::MarkProgress(Id id) {
  const std::lock_guard lock(mutex_);
  if (!id->is_closed && id->state != State::kWorking) idle_.splice(idle_.end(), idle_, id);
}

ConnectionTable::Admission ConnectionTable::BeginWork(Id id, bool is_vital) {
  const std::lock_guard lock(mutex_);
  if (id->is_closed) return Admission::kClosed;
  if (!MayWork(is_vital)) return Admission::kFull;
  SetState(id, State::kWorking);
  busy_.splice(busy_.end(), idle_, id);
  return Admission::kAdmitted;
}

bool ConnectionTable::HasRoom(bool is_vital) const {
  const std::lock_guard lock(mutex_);
  return MayWork(is_vital);
}

void ConnectionTable::BeginLingering(Id id) {
  const std::lock_guard lock(mutex_);
  const bool was_working = id->state == State::kWorking;
  SetState(id, State::kLingering);
  if (was_working && !id->is_closed) idle_.splice(idle_.end(), busy_, id);
}

void ConnectionTable::Drain() {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  for (auto next = idle_.begin(); next != idle_.end();) {
    const Id id = next++;
    if (id->state == State::kWaiting) CloseEntry(id);
  }
  changed_.notify_all();
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
  changed_.notify_all();
}

bool ConnectionTable::WaitUntilEmpty(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return idle_.empty() && busy_.empty(); });
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

}  // namespace fathom::http
