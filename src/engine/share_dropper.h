// ShareDropper: a thread that destroys shared objects that other threads have used.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace fathom::engine {

// For objects whose destruction may take long or wait for a lock: the thread that has used them
// does not wait. Any thread.
class ShareDropper {
 public:
  ShareDropper() = default;
  // Destroys all that is left.
  ~ShareDropper();
  ShareDropper(const ShareDropper&) = delete;
  ShareDropper& operator=(const ShareDropper&) = delete;

  // Starts the thread, unless it runs. Error: the system has no more threads.
  Status Start();
  // Destroys a share some milliseconds later on the thread; before Start, destroys it in this call.
  void Drop(std::shared_ptr<const void> share);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const void>> dropped_;  // guarded
  bool ends_ = false;                                 // guarded
  bool has_thread_ = false;                           // guarded
  std::jthread thread_;
};

}  // namespace fathom::engine
