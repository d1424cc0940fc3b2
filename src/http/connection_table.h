// ConnectionTable: tracks the open connections and the state of each, and closes one to make room.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

namespace fathom::http {

// Stores descriptors but owns none: a connection must remove itself before it closes its
// descriptor. The table closes a connection by ::shutdown, which ends every wait of its thread.
//
// Any thread; Add on one thread only.
class ConnectionTable {
 private:
  struct Entry;

 public:
  using Id = std::list<Entry>::iterator;
  struct Counts {
    std::size_t open = 0;
    std::size_t waiting = 0;  // connections that wait for a request
    std::size_t evicted = 0;  // since the start
  };

  enum class Admission { kAdmitted, kFull, kClosed };

  // `limit` connections may be open, and at work. `reserve`: this many more may be open when so
  // many are at work that fewer could wait.
  ConnectionTable(std::size_t limit, std::size_t reserve) : limit_(limit), reserve_(reserve) {}

  // Adds a connection, which waits for its first request. If there are too many, first closes the
  // connection that has waited longest. None: all are at work, or the table is closed.
  std::optional<Id> Add(int fd);
  void Remove(Id id);
  // Closes the connection that has waited longest. Returns false if all are at work.
  bool EvictOne();

  // Announce the next state of the connection. Return false if it has been closed, or may not enter
  // this state.
  bool BeginWaiting(Id id);  // for the first byte of a request
  bool BeginReading(Id id);  // a request: may still be evicted, but not drained
  // Records that the client has sent more of its request, so that others have waited longer.
  void MarkProgress(Id id);
  // Announces the handling of a whole request: neither evicted nor drained. kFull: too many
  // connections are at work; a vital request may use the reserve.
  Admission BeginWork(Id id, bool is_vital);
  // Returns whether BeginWork would find room now.
  bool HasRoom(bool is_vital) const;
  // Announces a complete response, or the time after the last one: the connection may be evicted,
  // and does not count as being at work.
  void BeginLingering(Id id);

  // Closes waiting connections and refuses new ones and further requests.
  void Drain();
  bool is_draining() const;
  // Drains and closes all connections.
  void Close();
  // Returns whether the table became empty within that time.
  bool WaitUntilEmpty(std::chrono::milliseconds time);

  Counts counts() const;

 private:
  enum class State { kWaiting, kReading, kWorking, kLingering };
  struct Entry {
    int fd;
    State state = State::kWaiting;
    bool is_closed = false;
  };

  // mutex_ must be held.
  void CloseEntry(Id id);
  bool EvictOldest();
  void SetState(Id id, State state);
  bool MayWork(bool is_vital) const { return n_working_ < limit_ + (is_vital ? reserve_ : 0); }
  std::size_t MostOpen() const;
  bool MayAdd() const { return idle_.size() + busy_.size() < MostOpen(); }
  // Ignores connections that are already closed.
  bool HasTooMany() const { return idle_.size() + n_working_ >= MostOpen(); }

  const std::size_t limit_;
  const std::size_t reserve_;
  mutable std::mutex mutex_;
  // Guarded by mutex_. `idle_` is ordered by waiting time, the longest first; `busy_` contains the
  // connections at work and the closed ones.
  std::list<Entry> idle_;
  std::list<Entry> busy_;
  std::size_t n_working_ = 0;
  std::size_t n_evicted_ = 0;
  bool is_draining_ = false;
  std::condition_variable changed_;  // notified when a connection was removed, or ended its work
};

}  // namespace fathom::http
