// ConnectionTable: knows which connections are open and what each is doing, and closes one to make
// room.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

namespace fathom {

// Knows descriptors, owns none: a connection removes itself before it closes its descriptor. The
// table closes a connection by ::shutdown, which ends every wait of its thread.
//
// Any thread; Add on one thread only.
class ConnectionTable {
 private:
  struct Entry;

 public:
  using Id = std::list<Entry>::iterator;
  struct Counts {
    std::size_t open = 0;
    std::size_t waiting = 0;  // for a request
    std::size_t evicted = 0;  // since the start
  };

  explicit ConnectionTable(std::size_t limit) : limit_(limit) {}

  // Adds a connection, which waits for its first request. If there are too many, the connection
  // that has waited longest is closed first. None: all are busy, or the table is closed.
  std::optional<Id> Add(int fd);
  void Remove(Id id);
  // Closes the connection that has waited longest. False: all are busy.
  bool EvictOne();

  // Announce what the connection does next. False: it has been closed, or may not begin this.
  bool BeginWaiting(Id id);  // for the first byte of a request
  bool BeginReading(Id id);  // a header: may still be evicted, but not drained
  bool BeginWork(Id id);     // reading the body, handling, answering: neither evicted nor drained
  // Announces the time after the last response: the connection may be evicted.
  void BeginLingering(Id id);

  // Closes waiting connections and refuses new ones and further requests.
  void Drain();
  bool is_draining() const;
  // Drains and closes all connections.
  void Close();
  // Whether the table is empty within that time.
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

  const std::size_t limit_;
  mutable std::mutex mutex_;
  // Guarded by mutex_. `idle_` is ordered by waiting time, the longest first; `busy_` holds the
  // connections at work and the closed ones.
  std::list<Entry> idle_;
  std::list<Entry> busy_;
  std::size_t n_evicted_ = 0;
  bool is_draining_ = false;
  std::condition_variable removed_;
};

}  // namespace fathom
