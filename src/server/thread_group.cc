#include "server/thread_group.h"

#include <csignal>
#include <memory>
#include <utility>

namespace fathom {
namespace {

// Creates a thread that blocks all signals from its first instruction on, hence inherits the mask.
bool CreateThread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool is_created = ::pthread_attr_setstacksize(&attributes, ThreadGroup::kStackBytes) == 0 &&
                          ::pthread_create(&thread, &attributes, run, argument) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  return is_created;
}

}  // namespace

bool ThreadGroup::Start(std::function<void()> work) {
  auto call = std::make_unique<Call>(Call{this, std::move(work)});
  const std::lock_guard lock(mutex_);
  if (!CreateThread(&ThreadGroup::Run, call.get())) return false;
  static_cast<void>(call.release());
  ++n_running_;
  return true;
}

void* ThreadGroup::Run(void* argument) {
  std::unique_ptr<Call> call(static_cast<Call*>(argument));
  call->work();
  ThreadGroup* const group = call->group;
  call.reset();
  group->Retire(::pthread_self());
  return nullptr;
}

void ThreadGroup::Retire(pthread_t self) {
  std::optional<pthread_t> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(last_ended_, self);
    if (--n_running_ == 0) all_ended_.notify_all();
  }
  // The group may be gone from here on.
  if (before) ::pthread_join(*before, nullptr);
}

void ThreadGroup::Wait() {
  std::optional<pthread_t> last;
  {
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [&] { return n_running_ == 0; });
    last = std::exchange(last_ended_, std::nullopt);
  }
  if (last) ::pthread_join(*last, nullptr);
}

}  // namespace fathom
