// ThreadGroup: threads with small stacks for many short pieces of work, with a wait for their end.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace fathom::http {

// A thread that has finished its work waits for more. Ending it and starting a new one would be
// expensive: while thousands of connections come and go, the system ends threads more slowly than
// it starts them, and their stacks stay mapped. So there are as many threads as there was
// concurrent work at most, and Wait joins them.
//
// The threads block signals, which belong to the thread that handles them. Start and Wait from any
// thread outside the group.
class ThreadGroup {
 public:
  using Work = std::function<void()>;

  // Enough for a handler that writes JSON 256 levels deep, even under a sanitizer. A std::thread
  // would reserve eight times as much address space.
  static constexpr std::size_t kStackBytes = std::size_t{1} << 20;

  ThreadGroup() = default;
  ~ThreadGroup() { Wait(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Runs `work`, which must not throw, on a thread of the group. Returns false if the system has no
  // thread left.
  bool Start(Work work);
  // Waits for all work; then ends the threads.
  void Wait();

 private:
  static void* Run(void* group);
  // `lock` must hold mutex_. None: the thread ends.
  Work NextWork(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<pthread_t> threads_;
  std::deque<Work> works_;        // works that have not begun
  std::size_t n_waiting_ = 0;     // threads without work
  std::size_t n_unfinished_ = 0;  // works, begun or not
  bool is_ending_ = false;
  std::condition_variable has_work_;  // notified also at the end
  std::condition_variable all_done_;
};

}  // namespace fathom::http
