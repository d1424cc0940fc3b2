#include "http/thread_group.h"

#include <optional>
#include <utility>

#include "base/signal_mask.h"

namespace fathom::http {
namespace {

// Creates a thread that blocks all signals from its first instruction on, because it inherits the
// mask.
std::optional<pthread_t> CreateThread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return std::nullopt;
  const SignalsBlocked blocked;
  pthread_t thread = {};
  const bool is_created = ::pthread_attr_setstacksize(&attributes, ThreadGroup::kStackBytes) == 0 &&
                          ::pthread_create(&thread, &attributes, run, argument) == 0;
  ::pthread_attr_destroy(&attributes);
  return is_created ? std::optional(thread) : std::nullopt;
}

}  // namespace

bool ThreadGroup::Start(Work work) {
  const std::lock_guard lock(mutex_);
  if (n_waiting_ <= works_.size()) {
    const std::optional<pthread_t> thread = CreateThread(&ThreadGroup::Run, this);
    if (!thread) return false;
    threads_.push_back(*thread);
    ++n_waiting_;  // effective as soon as it has the mutex
  }
  works_.push_back(std::move(work));
  ++n_unfinished_;
  has_work_.notify_one();
  return true;
}

void* ThreadGroup::Run(void* argument) {
  ThreadGroup& group = *static_cast<ThreadGroup*>(argument);
  std::unique_lock lock(group.mutex_);
  while (Work work = group.NextWork(lock)) {
    --group.n_waiting_;
    lock.unlock();
    work();
    work = nullptr;  // destroyed before the wait for more work
    lock.lock();
    ++group.n_waiting_;
    if (--group.n_unfinished_ == 0) group.all_done_.notify_all();
  }
  --group.n_waiting_;
  return nullptr;
}

ThreadGroup::Work ThreadGroup::NextWork(std::unique_lock<std::mutex>& lock) {
  has_work_.wait(lock, [&] { return is_ending_ || !works_.empty(); });
  if (works_.empty()) return nullptr;
  Work work = std::move(works_.front());
  works_.pop_front();
  return work;
}

void ThreadGroup::Wait() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [&] { return n_unfinished_ == 0; });
  if (threads_.empty()) return;
  is_ending_ = true;
  has_work_.notify_all();
  const std::vector<pthread_t> ending = std::exchange(threads_, {});
  lock.unlock();
  for (const pthread_t thread : ending) ::pthread_join(thread, nullptr);
  lock.lock();
  is_ending_ = false;
}

}  // namespace fathom::http
