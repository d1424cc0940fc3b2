#include "experts/streaming/read_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/guarded.h"
#include "base/signal_mask.h"

namespace fathom::experts {
ReadQueue::ReadQueue(BlockReader& reader, std::size_t n_slots)
    : reader_(reader), reads_(n_slots), waiting_(n_slots) {
  ended_.reserve(n_slots);
}

Result<std::unique_ptr<ReadQueue>> ReadQueue::Create(BlockReader& reader, std::size_t n_slots,
                                                     int n_threads) {
  std::unique_ptr<ReadQueue> queue(new ReadQueue(reader, n_slots));
  const Status started = Guarded([&]() -> Status {
    const SignalsBlocked blocked;
    queue->threads_.reserve(static_cast<std::size_t>(n_threads));
    for (int i = 0; i < n_threads; ++i) {
      queue->threads_.emplace_back([q = queue.get()] { q->Run(); });
    }
    return {};
  });
  if (!started) {
    return MakeError(started.error().code, "{} threads that read experts: {}", n_threads,
                     started.error().message);
  }
  return queue;
}

ReadQueue::~ReadQueue() { Check(Stop(), "a read that never ends, into memory that is freed"); }

void ReadQueue::Submit(std::uint32_t slot, std::span<const FileRange> ranges, std::byte* memory,
                       ReadUrgency urgency) {
  Check(!ranges.empty(), "reads of something");
  {
    const std::lock_guard lock(mutex_);
    reads_[slot] = {.ranges = ranges, .memory = memory, .urgency = urgency};
    waiting_.Append(ListOf(reads_[slot]), slot);
  }
  has_piece_.notify_all();
}

void ReadQueue::Promote(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  Read& read = reads_[slot];
  if (read.urgency == ReadUrgency::kDemand) return;
  if (!read.HasPiece()) return;
  waiting_.Remove(ListOf(read), slot);
  read.urgency = ReadUrgency::kDemand;
  waiting_.Append(ListOf(read), slot);
}

bool ReadQueue::Withdraw(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  Read& read = reads_[slot];
  const bool has_begun = read.range > 0 || read.begin > 0;
  if (has_begun || !read.HasPiece()) return false;
  waiting_.Remove(ListOf(read), slot);
  read.range = read.ranges.size();
  return true;
}

std::uint32_t ReadQueue::FirstSlot() const {
  const auto first = std::ranges::find_if_not(
      lists_, [](const KeyLists::List& list) { return list.first == KeyLists::kNone; });
  return first == lists_.end() ? KeyLists::kNone : first->first;
}

ReadQueue::Piece ReadQueue::TakePiece() {
  const std::uint32_t slot = FirstSlot();
  Read& read = reads_[slot];
  const FileRange& range = read.ranges[read.range];
  const std::int64_t begin = read.begin;
  const std::int64_t bytes = std::min(kReadPieceBytes, range.bytes - begin);
  read.begin += bytes;
  if (read.begin == range.bytes) {
    ++read.range;
    read.begin = 0;
  }
  ++read.n_reading;
  if (!read.HasPiece()) waiting_.Remove(ListOf(read), slot);
  if (n_reading_++ == 0) busy_since_ = Clock::now();
  return {.slot = slot,
          .file = range.file,
          .offset = range.offset + begin,
          .n_needed = std::min(bytes, range.n_needed - begin),
          .to = {read.memory + range.in_slot + begin, static_cast<std::size_t>(bytes)}};
}

// After an error, the remaining pieces are not read.
void ReadQueue::EndPiece(const Piece& piece, Status status) {
  Read& read = reads_[piece.slot];
  counts_.bytes += status ? std::ssize(piece.to) : 0;
  if (--n_reading_ == 0) {
    counts_.busy_seconds += std::chrono::duration<double>(Clock::now() - busy_since_).count();
  }
  if (!status && read.status) {
    read.status = std::move(status);
    if (read.HasPiece()) {
      waiting_.Remove(ListOf(read), piece.slot);
      read.range = read.ranges.size();
    }
  }
  if (--read.n_reading == 0 && !read.HasPiece()) {
    counts_.experts += read.status ? 1 : 0;
    ended_.push_back({.slot = piece.slot, .status = std::move(read.status)});
    has_ended_.notify_one();
  }
}

void ReadQueue::Run() {
  std::unique_lock lock(mutex_);
  ++n_running_;
  for (;;) {
    has_piece_.wait(lock, [this] { return stops_ || FirstSlot() != KeyLists::kNone; });
    if (stops_) break;
    const Piece piece = TakePiece();
    lock.unlock();
    Status status = Guarded(
        [&] { return ReadBlocks(reader_, piece.file, piece.offset, piece.to, piece.n_needed); });
    lock.lock();
    EndPiece(piece, std::move(status));
  }
  --n_running_;
  has_stopped_.notify_all();
}

bool ReadQueue::WaitForEnd(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  return has_ended_.wait_for(lock, longest, [this] { return !ended_.empty(); });
}

void ReadQueue::TakeEnded(std::vector<EndedRead>& ended) {
  const std::lock_guard lock(mutex_);
  std::move(ended_.begin(), ended_.end(), std::back_inserter(ended));
  ended_.clear();
}

ReadCounts ReadQueue::counts() const {
  const std::lock_guard lock(mutex_);
  ReadCounts counts = counts_;
  if (n_reading_ > 0) {
    counts.busy_seconds += std::chrono::duration<double>(Clock::now() - busy_since_).count();
  }
  return counts;
}

bool ReadQueue::Stop(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  stops_ = true;
  has_piece_.notify_all();
  const bool stopped = has_stopped_.wait_for(lock, longest, [this] { return n_running_ == 0; });
  lock.unlock();
  for (std::thread& thread : threads_) {
    if (!stopped) {
      thread.detach();
    } else if (thread.joinable()) {
      thread.join();
    }
  }
  threads_.clear();
  return stopped;
}

}  // namespace fathom::experts
