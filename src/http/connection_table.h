// ConnectionTable: which connections are open, what each is doing, and which has to make room.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

namespace fathom {

// Knows descriptors, owns none: a connection removes itself before it closes its own. A connection
// is closed from here by ::shutdown, which ends every wait of its thread.
//
// Any thread; Add on one only.
class ConnectionTable {
 private:
  struct Entry;

 public:
  using Id = std::list<Entry>::iterator;
  struct Counts {
    std::size_t open = 0;
    std::size_t waiting = 0;  // of those, for a request
    std::size_t evicted = 0;  // since the start
  };

  explicit ConnectionTable(std::size_t limit) : limit_(limit) {}

  // A new connection, waiting for its first request. If there are too many, the one that has
  // waited longest is closed first. Nothing: all are busy, or the table is closed.
  std::optional<Id> Add(int fd);
  void Remove(Id id);
  // Closes the connection that has waited longest. False: all are busy.
  bool EvictOne();

  // What the connection does next. False: it has been closed, or must not begin this any more.
  bool BeginWaiting(Id id);  // for the first byte of a request
  bool BeginReading(Id id);  // a header: may still be evicted, but not drained
  bool BeginWork(Id id);     // reading the body, handling, answering: neither
  // After its last response: may be evicted.
  void BeginLingering(Id id);

  // No connection is added, none waits for another request, and those that wait are closed.
  void Drain();
  bool is_draining() const;
  // As Drain, and closes all.
  void Close();
  // Whether there are none left within that time.
  bool WaitUntilEmpty(std::chrono::milliseconds time);

  Counts counts() const;

 private:
  enum class State { kWaiting, kReading, kWorking, kLingering };
  struct Entry {
    int fd;
    State state = State::kWaiting;
    bool is_closed = false;
  };

  // With mutex_ held.
  void CloseEntry(Id id);
  bool EvictOldest();

  const std::size_t limit_;
  mutable std::mutex mutex_;
  // Guarded by mutex_. `idle_` is ordered by the time since when they have waited, the longest
  // first; `busy_` holds those at work and those that are closed.
  std::list<Entry> idle_;
  std::list<Entry> busy_;
  std::size_t n_evicted_ = 0;
  bool is_draining_ = false;
  std::condition_variable removed_;
};

}  // namespace fathom
