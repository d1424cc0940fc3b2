#include "base/thread_team.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.h"
#include "base/processors.h"

namespace fathom {
namespace {

// About 20 microseconds: longer than the serial code between two operations of a decoding step.
constexpr int kMostSpins = 4000;
constexpr int kFewestSpins = 64;
// A wait that ended within this time although the thread slept should have been spinning.
constexpr auto kShortWait = std::chrono::microseconds(100);

// A piece is this fraction of the remaining share: the first pieces are long; the last pieces, at
// which the threads meet, are single grains.
constexpr std::uint32_t kPieces = 8;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
};

std::uint64_t Pack(Range range) { return std::uint64_t{range.end} << 32 | range.begin; }
Range Unpack(std::uint64_t packed) {
  return {static_cast<std::uint32_t>(packed), static_cast<std::uint32_t>(packed >> 32)};
}

// Takes a piece from the front or from the end of a share; an empty piece if nothing is left. The
// piece depends only on the exchanged value. A thread that was delayed and has read the value in an
// earlier loop does no harm: the exchange then takes the same grains of this loop.
Range TakePiece(std::atomic<std::uint64_t>& left, bool from_front) {
  std::uint64_t found = left.load(std::memory_order_acquire);
  while (true) {
    const Range range = Unpack(found);
    if (range.size() == 0) return {};
    const std::uint32_t size = std::max(range.size() / kPieces, 1u);
    const Range piece =
        from_front ? Range{range.begin, range.begin + size} : Range{range.end - size, range.end};
    const Range rest = from_front ? Range{piece.end, range.end} : Range{range.begin, piece.begin};
    if (left.compare_exchange_weak(found, Pack(rest), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return piece;
    }
  }
}

}  // namespace

void ThreadTeam::Patience::WaitWhileEqual(const std::atomic<std::uint32_t>& value,
                                          std::uint32_t old) {
  for (int i = 0; i < n_spins_; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  const auto start = std::chrono::steady_clock::now();
  value.wait(old, std::memory_order_acquire);
  const bool was_short = std::chrono::steady_clock::now() - start < kShortWait;
  n_spins_ = was_short ? std::min(2 * n_spins_, kMostSpins) : std::max(n_spins_ / 2, kFewestSpins);
}

ThreadTeam::ThreadTeam(int n_threads, std::span<const int> processors)
    : n_threads_(n_threads), shares_(static_cast<std::size_t>(std::max(n_threads, 1))) {
  Check(n_threads >= 1, "a team has at least one thread");
  Check(processors.empty() || std::ssize(processors) == n_threads, "one processor per thread");
  for (int i = 1; i < n_threads; ++i) {
    const int processor = processors.empty() ? -1 : processors[static_cast<std::size_t>(i)];
    threads_.emplace_back([this, i, processor] {
      if (processor >= 0) {
        BindThisThread(processor);
      }
      WorkerLoop(i);
    });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadTeam::Run(std::int64_t count, std::int64_t grain, Task task) {
  if (count <= 0) return;
  Check(!running_.exchange(true, std::memory_order_acquire), "a loop of a team inside its loop");
  grain = std::max<std::int64_t>(grain, 1);
  if (n_threads_ == 1 || count <= grain) {
    task.call(task.context, 0, count, 0);
    running_.store(false, std::memory_order_release);
    return;
  }
  const std::int64_t grains = (count - 1) / grain + 1;
  Check(grains <= std::numeric_limits<std::uint32_t>::max(), "a loop of more than 2^32 grains");
  task_ = task;
  count_ = count;
  grain_ = grain;
  unfinished_.store(static_cast<std::uint32_t>(grains), std::memory_order_relaxed);
  for (std::int64_t i = 0; i < n_threads_; ++i) {
    const Range share = {static_cast<std::uint32_t>(grains * i / n_threads_),
                         static_cast<std::uint32_t>(grains * (i + 1) / n_threads_)};
    shares_[static_cast<std::size_t>(i)].left.store(Pack(share), std::memory_order_release);
  }
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunPieces(0);
  for (std::uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    patience_.WaitWhileEqual(unfinished_, left);
  }
  running_.store(false, std::memory_order_release);
}

ThreadTeam::Share* ThreadTeam::FullestShare() {
  Share* fullest = nullptr;
  std::uint32_t most = 0;
  for (Share& share : shares_) {
    const std::uint32_t left = Unpack(share.left.load(std::memory_order_relaxed)).size();
    if (left > most) {
      most = left;
      fullest = &share;
    }
  }
  return fullest;
}

// Takes and runs pieces until every share is empty. Does nothing if the loop is over.
void ThreadTeam::RunPieces(int worker) {
  Share* const own = &shares_[static_cast<std::size_t>(worker)];
  std::uint32_t done = 0;
  for (Share* share = own; share != nullptr;) {
    const Range piece = TakePiece(share->left, share == own);
    if (piece.size() > 0) {
      task_.call(task_.context, piece.begin * grain_, std::min(piece.end * grain_, count_), worker);
      done += piece.size();
    }
    if (piece.size() == 0 || share != own) {
      share = FullestShare();
    }
  }
  if (done > 0 && unfinished_.fetch_sub(done, std::memory_order_acq_rel) == done) {
    unfinished_.notify_one();
  }
}

void ThreadTeam::WorkerLoop(int worker) {
  Patience patience;
  std::uint32_t seen = 0;
  while (true) {
    patience.WaitWhileEqual(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    RunPieces(worker);
  }
}

}  // namespace fathom
