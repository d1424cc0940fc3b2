#include "constraint/constraint_memory.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace fathom::constraint {
namespace {

// The longest wait without a notification: some events that end a wait, such as a client that
// leaves, send none.
constexpr std::chrono::milliseconds kLongestWait{50};
constexpr std::size_t kLittle = std::size_t{64} << 10;  // a few masks, which are counted later
// The part of the limit, at most half of it, that is kept for the last work that is not waiting:
// for one automaton and its masks.
constexpr std::size_t kMostForLast = std::size_t{576} << 20;

}  // namespace

std::size_t ConstraintMemory::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

// Frees the memory of one constraint or automaton; false if nothing can be freed. Releases the lock
// meanwhile.
bool ConstraintMemory::MakeRoom(std::unique_lock<std::mutex>& lock) {
  using Owner = std::pair<std::uint64_t, std::weak_ptr<FreeableMemory>>;
  std::vector<Owner> owners;
  for (const Account* account : accounts_) {
    if (account->works_ || account->n_bytes_ == 0) continue;
    owners.emplace_back(account->last_use_, account->owner_);
  }
  lock.unlock();
  std::ranges::sort(owners, {}, &Owner::first);
  bool has_freed = drop_idle_ && drop_idle_();
  for (std::size_t i = 0; i < owners.size() && !has_freed; ++i) {
    const std::shared_ptr<FreeableMemory> owner = owners[i].second.lock();
    has_freed = owner != nullptr && owner->TryFree();
  }
  lock.lock();
  return has_freed;
}

bool ConstraintMemory::Grow(Account& account, std::size_t bytes, WorkPace* pace) {
  std::unique_lock lock(mutex_);
  if (!account.works_) ++n_working_;
  account.works_ = true;
  const std::size_t more = bytes - account.n_bytes_;
  const std::size_t limit = limit_ - std::min(limit_ / 2, kMostForLast);
  while (used_ + more > limit) {
    if (MakeRoom(lock)) continue;
    if (used_ + more <= limit || n_waiting_ + 1 >= n_working_) break;
    ++n_waiting_;
    lock.unlock();
    if (pace != nullptr) pace->BeginWait();
    lock.lock();
    changed_.wait_for(lock, kLongestWait);
    lock.unlock();
    if (pace != nullptr) pace->EndWait();
    const bool goes_on = pace == nullptr || pace->GoesOn();
    lock.lock();
    --n_waiting_;
    if (!goes_on) return false;
  }
  used_ += more;
  account.n_bytes_ += more;
  return true;
}

ConstraintMemory::Account::Account(std::shared_ptr<ConstraintMemory> memory)
    : memory_(std::move(memory)) {
  const std::scoped_lock lock(memory_->mutex_);
  place_ = memory_->accounts_.insert(memory_->accounts_.end(), this);
}

ConstraintMemory::Account::~Account() {
  {
    const std::scoped_lock lock(memory_->mutex_);
    memory_->accounts_.erase(place_);
    memory_->used_ -= n_bytes_;
    if (works_) --memory_->n_working_;
  }
  memory_->changed_.notify_all();
}

void ConstraintMemory::Account::SetOwner(std::weak_ptr<FreeableMemory> owner) {
  const std::scoped_lock lock(memory_->mutex_);
  owner_ = std::move(owner);
}

void ConstraintMemory::Account::EndWork(std::size_t bytes) {
  last_use_ = ++memory_->n_uses_;
  const std::size_t change = std::max(bytes, n_bytes_) - std::min(bytes, n_bytes_);
  if (!works_ && change < kLittle) return;
  {
    const std::scoped_lock lock(memory_->mutex_);
    memory_->used_ = memory_->used_ - n_bytes_ + bytes;
    n_bytes_ = bytes;
    if (works_) --memory_->n_working_;
    works_ = false;
  }
  memory_->changed_.notify_all();
}

}  // namespace fathom::constraint
