#include "engine/share_dropper.h"

#include <chrono>
#include <utility>

#include "base/guarded.h"

namespace fathom::engine {

ShareDropper::~ShareDropper() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status ShareDropper::Start() {
  const std::lock_guard lock(mutex_);
  if (has_thread_) return {};
  return Guarded([this]() -> Status {
    thread_ = std::jthread([this] { Run(); });
    has_thread_ = true;
    return {};
  });
}

void ShareDropper::Drop(std::shared_ptr<const void> share) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (has_thread_) {
      is_first = dropped_.empty();
      dropped_.push_back(std::move(share));
    }
  }
  if (is_first) changed_.notify_one();
}

// Collects shares for a moment: waking the thread for each share would take time from the model.
void ShareDropper::Run() {
  constexpr std::chrono::milliseconds kMoment(5);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !dropped_.empty() || ends_; });
    changed_.wait_for(lock, kMoment, [this] { return ends_; });
    if (ends_) return;
    std::vector<std::shared_ptr<const void>> dropped;
    dropped.swap(dropped_);
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
}

}  // namespace fathom::engine
