// ThreadGroup: many short-lived threads with small stacks, all of them joined at the end.
#ifndef FATHOM_SERVER_THREAD_GROUP_H_
#define FATHOM_SERVER_THREAD_GROUP_H_

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>

namespace fathom {

// A std::thread reserves 8 MiB of addresses and must be joined by somebody who waits for it. Here
// a thread that ends joins the one that ended before it, so that none is left over and nobody
// waits. Signals are blocked in all of them: they belong to the thread that handles them.
// Start and Wait from any thread outside the group.
class ThreadGroup {
 public:
  // Enough for a handler that writes JSON 256 levels deep, also under a sanitizer.
  static constexpr std::size_t kStackBytes = std::size_t{1} << 20;

  ThreadGroup() = default;
  ~ThreadGroup() { Wait(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Runs `work`, which must not let an exception out, on a new thread. False: the system has none
  // left.
  bool Start(std::function<void()> work);
  // Until all threads have ended.
  void Wait();

 private:
  struct Call {
    ThreadGroup* group;
    std::function<void()> work;
  };

  static void* Run(void* call);
  void Retire(pthread_t self);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t n_running_ = 0;
  std::optional<pthread_t> last_ended_;
  std::condition_variable all_ended_;
};

}  // namespace fathom

#endif  // FATHOM_SERVER_THREAD_GROUP_H_
