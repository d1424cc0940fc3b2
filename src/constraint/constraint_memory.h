// ConstraintMemory: one limit for the memory of all constraints of a process: grammars that are
// being compiled, and the automata and masks of answers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "constraint/work_pace.h"

namespace fathom::constraint {

// Memory that can be freed at any time, because its contents can be computed again.
class FreeableMemory {
 public:
  virtual ~FreeableMemory() = default;
  // Frees the memory, unless it is in use right now: then returns false. Any thread.
  virtual bool TryFree() = 0;
};

// Any thread. Room is made in this order: constraints that nobody uses are dropped; automata that
// no thread computes with are freed, the most recently used ones last; and the work waits until
// other work has ended. The last work that is not waiting need not wait: a part of the limit is
// kept for it.
class ConstraintMemory {
 public:
  class Account;

  // `limit`: in bytes. `drop_idle` drops a constraint that nobody uses, and returns false if there
  // is none.
  ConstraintMemory(std::size_t limit, std::function<bool()> drop_idle)
      : limit_(limit), drop_idle_(std::move(drop_idle)) {}
  ConstraintMemory(const ConstraintMemory&) = delete;
  ConstraintMemory& operator=(const ConstraintMemory&) = delete;

  std::size_t limit() const { return limit_; }
  // The bytes that one automaton may keep: half of the limit.
  std::size_t most_at_once() const { return limit_ / 2; }
  std::size_t used() const;

 private:
  bool Grow(Account& account, std::size_t bytes, WorkPace* pace);
  bool MakeRoom(std::unique_lock<std::mutex>& lock);

  const std::size_t limit_;
  const std::function<bool()> drop_idle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Account*> accounts_;  // guarded by mutex_
  std::atomic<std::uint64_t> n_uses_ = 0;
  std::size_t used_ = 0;  // guarded by mutex_
  int n_working_ = 0;     // guarded by mutex_
  int n_waiting_ = 0;     // guarded by mutex_; counted in n_working_, too
};

// The memory of one grammar, its automaton and its masks. One thread at a time; the
// ConstraintMemory must outlive it.
class ConstraintMemory::Account {
 public:
  explicit Account(std::shared_ptr<ConstraintMemory> memory);
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;
  ~Account();

  // Lets `owner` free the memory if other work needs it.
  void SetOwner(std::weak_ptr<FreeableMemory> owner);
  // Makes room for `bytes` bytes in all, or waits for room: until EndWork they are not freed.
  // `pace`, which may be null, is told of the wait, and asked whether to go on: returns false if
  // the pace ends the work.
  bool Reach(std::size_t bytes, WorkPace* pace) {
    return bytes <= n_bytes_ || memory_->Grow(*this, bytes, pace);
  }
  // `bytes`: the memory that is kept. Most work needs no more room, and takes no lock here.
  void EndWork(std::size_t bytes);

 private:
  friend class ConstraintMemory;
  const std::shared_ptr<ConstraintMemory> memory_;
  // Guarded by the mutex of memory_:
  std::list<Account*>::iterator place_;
  std::weak_ptr<FreeableMemory> owner_;
  // Also guarded, but the thread of the account, which alone writes them, reads without the lock:
  std::size_t n_bytes_ = 0;
  bool works_ = false;
  std::atomic<std::uint64_t> last_use_ = 0;
};

}  // namespace fathom::constraint
