#include "engine/mask_pool.h"

#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "base/processors.h"

namespace fathom {
namespace {

constexpr int kLeastMaskThreads = 2;  // a mask that takes long does not delay all others
constexpr int kMostMaskThreads = 8;
constexpr int kCoresPerMaskThread = 4;  // the others belong to the model

}  // namespace

Status PendingMask::Compute() {
  if (before_ == nullptr) {
    found_.state = constraint_->Begin();
  } else {
    const FoundMask& before = before_->found();
    if (before.error) return Unexpected(*before.error);
    Result<ConstraintState> state = constraint_->Advance(before.state, token_);
    if (!state) return Unexpected(state.error());
    found_.state = *std::move(state);
  }
  Result<TokenMask> mask = constraint_->Mask(found_.state);
  if (!mask) return Unexpected(mask.error());
  found_.mask = *std::move(mask);
  found_.can_end = constraint_->CanEnd(found_.state);
  return {};
}

MaskPool::~MaskPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    queue_.clear();
  }
  asked_.notify_all();
}

Status MaskPool::Start() {
  const std::lock_guard lock(mutex_);
  if (has_threads_) return {};
  const int n_threads =
      std::clamp(AvailableCores() / kCoresPerMaskThread, kLeastMaskThreads, kMostMaskThreads);
  return Guarded([&]() -> Status {
    for (int i = 0; i < n_threads; ++i) {
      threads_.emplace_back([this] { Run(); });
      has_threads_ = true;
    }
    return {};
  });
}

void MaskPool::Ask(std::shared_ptr<PendingMask> mask) {
  {
    const std::lock_guard lock(mutex_);
    if (has_threads_) {
      queue_.push_back(std::move(mask));
    }
  }
  if (mask == nullptr) {
    asked_.notify_one();
  } else {
    Compute(*mask);
  }
}

void MaskPool::Run() {
  while (true) {
    std::shared_ptr<PendingMask> next;
    std::vector<std::shared_ptr<const void>> dropped;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [this] { return !queue_.empty() || !dropped_.empty() || ends_; });
      if (ends_) return;
      if (queue_.empty()) {
        dropped.swap(dropped_);
      } else {
        next = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    // An unused mask is of a sequence that has ended, or behind a token that was not chosen.
    const bool is_unused = next.use_count() <= 1;
    if (!is_unused) {
      Compute(*next);
    }
  }
}

void MaskPool::Drop(std::shared_ptr<const void> share) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_threads_) return;
    dropped_.push_back(std::move(share));
  }
  asked_.notify_one();
}

// Another thread may still compute what is before: it was asked for earlier, so it does not wait
// for this mask.
void MaskPool::Compute(PendingMask& mask) {
  if (mask.before_ != nullptr) {
    Wait(*mask.before_);
  }
  const auto begin = std::chrono::steady_clock::now();
  if (const Status computed = Guarded([&] { return mask.Compute(); }); !computed) {
    mask.found_ = {.error = computed.error()};
  }
  mask.before_ = nullptr;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (metrics_ != nullptr) {
    metrics_->CountMask(seconds.count());
  }
  {
    const std::lock_guard lock(mutex_);
    mask.ready_.store(true, std::memory_order_release);
  }
  ready_.notify_all();
}

bool MaskPool::WaitUntil(const PendingMask& mask, std::chrono::steady_clock::time_point deadline) {
  if (mask.IsReady()) return true;
  std::unique_lock lock(mutex_);
  return ready_.wait_until(lock, deadline, [&] { return mask.IsReady(); });
}

void MaskPool::Wait(const PendingMask& mask) {
  if (mask.IsReady()) return;
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return mask.IsReady(); });
}

}  // namespace fathom
