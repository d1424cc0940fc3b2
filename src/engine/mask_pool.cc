#include "engine/mask_pool.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "base/processors.h"

namespace fathom {
namespace {

constexpr int kLeastMaskThreads = 2;  // a mask that takes long does not delay all others
constexpr int kMostMaskThreads = 8;
constexpr int kCoresPerMaskThread = 4;  // the others belong to the model
constexpr double kSlowSeconds = 0.004;  // twice the time that a step waits for a mask
// Less than waking a thread may cost a model that computes on all processors: all its threads wait
// for the one that makes way.
constexpr double kQuickSeconds = 0.0001;
// Limits the average of the last masks of all sequences. A short answer has too few masks to show
// that its next one is slow; the average shows it.
constexpr double kQuickAverage = 0.00005;
constexpr double kAveragedMasks = 64;

// Seconds that the calling thread has run: on a busy machine a quick mask may take long.
double ThreadSeconds() {
  timespec now = {};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Gives the calling thread the least priority. It cannot fail.
void YieldToOthers() { static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19)); }

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
    slow_queue_.clear();
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
      threads_.emplace_back([this] { Run(queue_); });
      has_threads_ = true;
    }
    threads_.emplace_back([this] {
      YieldToOthers();
      Run(slow_queue_);
    });
    return {};
  });
}

// A mask behind one that is not ready yet belongs where that one is: a quick mask must not wait for
// a slow one. Otherwise the time of the masks before decides.
bool MaskPool::IsSlow(const PendingMask* before) {
  if (before == nullptr) return false;
  return before->IsReady() ? before->seconds_ > kSlowSeconds : before->is_slow_;
}

// Requires the lock. While threads compute, a mask of the same grammar might have to wait for
// theirs.
bool MaskPool::IsForAsker(const PendingMask* before) const {
  return quick_ == QuickMasks::kAskers && n_unfinished_ == 0 && before != nullptr &&
         before->IsReady() && before->seconds_ < kQuickSeconds && average_seconds_ < kQuickAverage;
}

void MaskPool::Ask(std::shared_ptr<PendingMask> mask) {
  mask->is_slow_ = IsSlow(mask->before_.get());
  {
    const std::lock_guard lock(mutex_);
    if (has_threads_ && !IsForAsker(mask->before_.get())) {
      (mask->is_slow_ ? slow_queue_ : queue_).push_back(std::move(mask));
      ++n_unfinished_;
    }
  }
  if (mask == nullptr) {
    asked_.notify_all();  // the threads of either queue wait here
  } else {
    Compute(*mask);
  }
}

void MaskPool::Run(Queue& queue) {
  while (true) {
    std::shared_ptr<PendingMask> next;
    std::vector<std::shared_ptr<const void>> dropped;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [&] { return !queue.empty() || !dropped_.empty() || ends_; });
      if (ends_) return;
      if (queue.empty()) {
        dropped.swap(dropped_);
      } else {
        next = std::move(queue.front());
        queue.pop_front();
      }
    }
    if (next == nullptr) continue;
    // An unused mask is of a sequence that has ended, or behind a token that was not chosen.
    const bool is_unused = next.use_count() <= 1;
    if (!is_unused) {
      Compute(*next);
    }
    next.reset();
    const std::lock_guard lock(mutex_);
    --n_unfinished_;
  }
}

void MaskPool::Drop(std::shared_ptr<const PendingMask> mask) {
  if (quick_ == QuickMasks::kAskers) {
    const std::lock_guard lock(mutex_);
    if (n_unfinished_ == 0) return;
  }
  DropLater(std::move(mask));
}

void MaskPool::Drop(std::shared_ptr<const Constraint> constraint) {
  DropLater(std::move(constraint));
}

void MaskPool::DropLater(std::shared_ptr<const void> share) {
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
  const double seconds_before = mask.before_ == nullptr ? 0 : mask.before_->seconds_;
  const double thread_begin = ThreadSeconds();
  const auto begin = std::chrono::steady_clock::now();
  if (const Status computed = Guarded([&] { return mask.Compute(); }); !computed) {
    mask.found_ = {.error = computed.error()};
  }
  mask.before_ = nullptr;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double thread_seconds = ThreadSeconds() - thread_begin;
  mask.seconds_ = std::max(thread_seconds, seconds_before / 2);
  if (metrics_ != nullptr) {
    metrics_->CountMask(seconds.count());
  }
  {
    const std::lock_guard lock(mutex_);
    average_seconds_ += (thread_seconds - average_seconds_) / kAveragedMasks;
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
