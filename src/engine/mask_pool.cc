#include "engine/mask_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/guarded.h"
#include "base/processors.h"
#include "base/this_thread.h"
#include "engine/mask_pace.h"

namespace fathom::engine {
namespace {

constexpr int kLeastMaskThreads = 2;  // so that one long mask does not delay all others
constexpr int kMostMaskThreads = 8;
constexpr int kCoresPerMaskThread = 4;  // the other cores belong to the model
// Less than the cost of waking a thread beside a model that computes on all processors: all its
// threads wait for the one that loses its processor.
constexpr double kQuickSeconds = 0.0001;
// Limits the average of the last masks of all sequences. A short answer has too few masks to show
// that its next one is slow; the average shows it.
constexpr double kQuickAverage = 0.00005;
constexpr double kAveragedMasks = 64;

}  // namespace

MaskPool::~MaskPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_.notify_all();
  slow_asked_.notify_all();
  threads_.clear();  // no thread changes the list any more
}

Status MaskPool::Start() {
  const std::lock_guard lock(mutex_);
  if (has_threads_) return {};
  if (Status started = dropper_.Start(); !started) return started;
  most_quick_ =
      std::clamp(AvailableCores() / kCoresPerMaskThread, kLeastMaskThreads, kMostMaskThreads);
  for (int i = 0; i < most_quick_; ++i) {
    if (Status started = StartQuick(); !started && n_quick_ == 0) return started;
  }
  has_threads_ = true;
  return {};
}

// --- Masks ---

std::shared_ptr<const AskedMask> MaskPool::Ask(std::shared_ptr<const MaskSource> source,
                                               const AskedMask* before, Token token) {
  auto mask = std::make_shared<PendingMask>(std::move(source),
                                            before == nullptr ? nullptr : before->mask_, token);
  auto asked = std::make_shared<const AskedMask>(*this, mask);
  std::condition_variable* woken = nullptr;
  bool is_limited = false;
  {
    const std::lock_guard lock(mutex_);
    is_limited = has_threads_;
    if (has_threads_ && !IsForAsker(mask->before_.get())) woken = Hand(std::move(mask));
  }
  if (woken != nullptr) woken->notify_one();
  if (mask != nullptr) ComputeAtOnce(std::move(mask), is_limited);
  return asked;
}

// Requires the lock. While threads compute, a mask of the same grammar might have to wait for their
// locks.
bool MaskPool::IsForAsker(const PendingMask* before) const {
  return quick_ == QuickMasks::kAskers && n_unfinished_ == 0 && before != nullptr &&
         before->IsReady() && before->seconds_ < kQuickSeconds && average_seconds_ < kQuickAverage;
}

// Requires the lock. Queues a mask for the threads once the mask before it is ready. Returns the
// condition variable with which to wake one thread, or null.
std::condition_variable* MaskPool::Hand(std::shared_ptr<PendingMask> mask) {
  ++n_unfinished_;
  PendingMask* const before = mask->before_.get();
  if (before == nullptr) return Enqueue(std::move(mask), /*is_slow=*/false);
  if (before->IsReady()) return Enqueue(std::move(mask), before->seconds_ > Pace::kSlowSeconds);
  before->next_.push_back(std::move(mask));
  return nullptr;
}

// Like Hand; the mask before it is ready.
std::condition_variable* MaskPool::Enqueue(std::shared_ptr<PendingMask> mask, bool is_slow) {
  if (!is_slow) {
    const std::string& owner = mask->source_->owner;
    quick_masks_.Add(owner, quick_masks_.NewTicket(), std::move(mask));
    return &asked_;
  }
  slow_masks_.push_back(std::move(mask));
  return NeedsSlowThread() ? &asked_ : &slow_asked_;
}

// is_limited: a mask that takes too long moves to a slow thread.
void MaskPool::ComputeAtOnce(std::shared_ptr<PendingMask> mask, bool is_limited) {
  AskersPace pace;
  const double seconds = Compute(*mask, is_limited ? &pace : nullptr);
  std::condition_variable* woken = &ready_;
  std::shared_ptr<PendingMask> before;
  if (pace.has_ended() && mask->found_.error) {
    Drop(std::make_shared<ConstraintState>(std::move(mask->found_.state)));
    const std::lock_guard lock(mutex_);
    average_seconds_ += (seconds - average_seconds_) / kAveragedMasks;
    ++n_unfinished_;
    woken = Enqueue(std::move(mask), /*is_slow=*/true);
  } else {
    before = std::move(mask->before_);
    const std::lock_guard lock(mutex_);
    Publish(*mask, seconds);
  }
  woken->notify_all();
}

// The dropper destroys states: their destruction may wait for a lock, and a waiting thread may hold
// no place.
void MaskPool::ComputeOnThread(std::shared_ptr<PendingMask> mask, Pace& pace) {
  double seconds = 0;
  if (pace.GoesOn()) {
    seconds = Compute(*mask, &pace);
  } else {
    mask->found_.error = Error{ErrorCode::kUnavailable, "nobody needs the mask"};
  }
  pace.Leave();
  std::shared_ptr<PendingMask> before = std::move(mask->before_);
  bool is_followed = false;
  {
    const std::lock_guard lock(mutex_);
    is_followed = !mask->next_.empty();
    Publish(*mask, seconds);
    --n_unfinished_;
    if (!pace.is_slow()) quick_masks_.GiveBack(mask->source_->owner);
  }
  ready_.notify_all();
  if (is_followed) {
    asked_.notify_all();
    slow_asked_.notify_all();
  }
  if (before != nullptr) Drop(std::move(before));
  Drop(std::move(mask));
}

// Computes the mask and returns the processor time.
double MaskPool::Compute(PendingMask& mask, WorkPace* pace) {
  const ThreadWatch watch;
  if (const Status computed = Guarded([&] { return mask.Compute(pace); }); !computed) {
    mask.found_.error = computed.error();
  }
  const double seconds = watch.seconds();
  mask.seconds_ = std::max(seconds, mask.before_ == nullptr ? 0 : mask.before_->seconds_ / 2);
  if (metrics_ != nullptr) metrics_->CountMask(seconds);
  return seconds;
}

// Requires the lock. Makes the mask ready.
void MaskPool::Publish(PendingMask& mask, double thread_seconds) {
  average_seconds_ += (thread_seconds - average_seconds_) / kAveragedMasks;
  mask.ready_.store(true, std::memory_order_release);
  for (std::shared_ptr<PendingMask>& next : mask.next_) {
    Enqueue(std::move(next), mask.seconds_ > Pace::kSlowSeconds);
  }
  mask.next_.clear();
}

bool MaskPool::IsNeeded(const PendingMask& mask) {
  if (ends_) return false;
  if (!mask.is_dropped_) return true;
  const std::lock_guard lock(mutex_);
  return HasUser(mask);
}

// Requires the lock.
bool MaskPool::HasUser(const PendingMask& mask) {
  return !mask.is_dropped_ ||
         std::ranges::any_of(mask.next_, [](const auto& next) { return HasUser(*next); });
}

// While no thread computes, no lock of a constraint is held.
void MaskPool::DropMask(std::shared_ptr<PendingMask> mask) {
  if (quick_ == QuickMasks::kAskers) {
    const std::lock_guard lock(mutex_);
    if (n_unfinished_ == 0) return;
  }
  Drop(std::move(mask));
}

bool MaskPool::WaitUntil(const AskedMask& mask, std::chrono::steady_clock::time_point deadline) {
  if (mask.IsReady()) return true;
  std::unique_lock lock(mutex_);
  return ready_.wait_until(lock, deadline, [&] { return mask.IsReady(); });
}

void MaskPool::Wait(const AskedMask& mask) {
  if (mask.IsReady()) return;
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return mask.IsReady(); });
}

// --- Threads ---

// Requires the lock. Called by Start and by quick threads, which are bound to no processor and have
// the usual priority: a new thread inherits both.
Status MaskPool::StartThread(void (MaskPool::*run)()) {
  if (ends_) return MakeError(ErrorCode::kUnavailable, "the threads of masks end");
  threads_.emplace_back();
  const auto self = std::prev(threads_.end());
  Status started = Guarded([&]() -> Status {
    *self = std::jthread([this, self, run] {
      (this->*run)();
      EndThread(self);
    });
    return {};
  });
  if (!started) threads_.erase(self);
  return started;
}

// Called by the thread itself, which the dropper joins.
void MaskPool::EndThread(Threads::iterator self) {
  const std::lock_guard lock(mutex_);
  if (ends_) return;
  Drop(std::make_shared<const std::jthread>(std::move(*self)));
  threads_.erase(self);
}

// Requires the lock.
Status MaskPool::StartQuick() {
  if (n_quick_ >= most_quick_) return {};
  Status started = StartThread(&MaskPool::RunQuick);
  if (started) ++n_quick_;
  return started;
}

// Requires the lock. If no thread can be started, the quick threads get the slow mask.
void MaskPool::StartSlow() {
  if (StartThread(&MaskPool::RunSlow)) {
    ++n_idle_slow_;
  } else {
    Enqueue(std::move(slow_masks_.back()), /*is_slow=*/false);
    slow_masks_.pop_back();
  }
}

void MaskPool::RunQuick() {
  std::unique_lock lock(mutex_);
  while (n_quick_ <= most_quick_) {
    ++n_idle_quick_;
    asked_.wait(lock, [this] { return ends_ || !quick_masks_.IsEmpty() || NeedsSlowThread(); });
    --n_idle_quick_;
    if (ends_) break;
    if (NeedsSlowThread()) {
      StartSlow();
      continue;
    }
    std::shared_ptr<PendingMask> mask = *quick_masks_.Take();
    if (!quick_masks_.IsEmpty() && n_idle_quick_ == 0) static_cast<void>(StartQuick());
    lock.unlock();
    Pace pace(*this, *mask, /*is_slow=*/false);
    ComputeOnThread(std::move(mask), pace);
    lock.lock();
    if (pace.is_slow()) {
      ++n_idle_slow_;
      ServeSlow(lock);
      return;
    }
  }
  --n_quick_;
}

void MaskPool::RunSlow() {
  TakeLeastPriority();
  std::unique_lock lock(mutex_);
  ServeSlow(lock);
}

// The thread counts as idle on entry, and not on return. As many threads as there are places stay
// for the next masks.
void MaskPool::ServeSlow(std::unique_lock<std::mutex>& lock) {
  while (!slow_masks_.empty() || n_idle_slow_ <= kSlowPlaces) {
    slow_asked_.wait(lock, [this] { return ends_ || !slow_masks_.empty(); });
    if (ends_) break;
    --n_idle_slow_;
    std::shared_ptr<PendingMask> mask = std::move(slow_masks_.front());
    slow_masks_.pop_front();
    lock.unlock();
    if (metrics_ != nullptr) metrics_->Add(&MetricsSnapshot::slow_masks);
    Pace pace(*this, *mask, /*is_slow=*/true);
    ComputeOnThread(std::move(mask), pace);
    lock.lock();
    ++n_idle_slow_;
  }
  --n_idle_slow_;
}

// --- For Pace ---

// Gives the quick place of the calling thread to another thread, and lowers the caller to the least
// priority. Returns false if there is no other thread.
bool MaskPool::MoveToSlow(const PendingMask& mask) {
  {
    const std::lock_guard lock(mutex_);
    --n_quick_;
    static_cast<void>(StartQuick());
    if (n_quick_ == 0) {
      ++n_quick_;
      return false;
    }
    quick_masks_.GiveBack(mask.source_->owner);
  }
  TakeLeastPriority();
  if (metrics_ != nullptr) metrics_->Add(&MetricsSnapshot::slow_masks);
  return true;
}

void MaskPool::LeaveQuick(const PendingMask& mask) {
  const std::lock_guard lock(mutex_);
  quick_masks_.GiveBack(mask.source_->owner);
  --n_quick_;
  const bool has_work = !quick_masks_.IsEmpty() && n_idle_quick_ == 0;
  if (has_work || n_quick_ == 0) static_cast<void>(StartQuick());
}

void MaskPool::ReturnToQuick(const PendingMask& mask) {
  const std::lock_guard lock(mutex_);
  quick_masks_.Borrow(mask.source_->owner);
  ++n_quick_;
}

}  // namespace fathom::engine
