// The queue of reads: demand reads first, every read ends once, errors stay with their slot.
#include "experts/streaming/read_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <vector>

namespace fathom::experts {
namespace {

constexpr std::int64_t kLarge = std::int64_t{3} << 20;  // two pieces

// Files of one letter each; reads wait until the gate opens.
class GatedReader : public BlockReader {
 public:
  std::int64_t Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) override {
    {
      const std::lock_guard lock(mutex_);
      order_.push_back(file);
    }
    has_call_.store(true);
    has_call_.notify_all();
    open_.future.wait();
    if (file == broken_ && offset == 0) return -EIO;
    std::memset(to.data(), 'a' + static_cast<int>(file), to.size());
    return std::ssize(to);
  }
  std::string FileName(std::size_t /*file*/) const override { return "file"; }
  void WaitForCall() { has_call_.wait(false); }
  void Open() { open_.Set(); }
  std::vector<std::size_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  std::size_t broken_ = 99;

 private:
  struct Gate {
    std::promise<void> promise;
    std::shared_future<void> future = promise.get_future().share();
    void Set() { promise.set_value(); }
  };
  Gate open_;
  std::mutex mutex_;
  std::vector<std::size_t> order_;
  std::atomic<bool> has_call_ = false;
};

class ReadQueueTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSlots = 6;
  void Start(int n_threads) {
    queue_ = *ReadQueue::Create(reader_, kSlots, n_threads);
    for (std::size_t i = 0; i < kSlots; ++i) {
      memory_[i].resize(kLarge);
      ranges_[i] = {.file = i, .bytes = kLarge, .n_needed = kLarge};
    }
  }
  void Submit(std::uint32_t slot, ReadUrgency urgency) {
    queue_->Submit(slot, {&ranges_[slot], 1}, memory_[slot].data(), urgency);
  }
  std::vector<EndedRead> WaitForAll(std::size_t n) {
    std::vector<EndedRead> ended;
    while (ended.size() < n && queue_->WaitForEnd(std::chrono::seconds(20))) {
      queue_->TakeEnded(ended);
    }
    return ended;
  }

  GatedReader reader_;
  std::array<std::vector<std::byte>, kSlots> memory_;
  std::array<FileRange, kSlots> ranges_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_F(ReadQueueTest, ReadsDemandFirstAndInTheirOrder) {
  Start(1);
  Submit(0, ReadUrgency::kAhead);
  reader_.WaitForCall();  // the thread has the first piece of 0
  Submit(1, ReadUrgency::kAhead);
  Submit(2, ReadUrgency::kAhead);
  Submit(3, ReadUrgency::kDemand);
  Submit(4, ReadUrgency::kDemand);
  queue_->Promote(2);
  reader_.Open();
  const std::vector<EndedRead> ended = WaitForAll(5);
  ASSERT_EQ(ended.size(), 5u);
  EXPECT_EQ(reader_.order(), (std::vector<std::size_t>{0, 3, 3, 4, 4, 2, 2, 0, 1, 1}));
  for (const EndedRead& read : ended) {
    EXPECT_TRUE(read.status);
    EXPECT_EQ(memory_[read.slot].back(), static_cast<std::byte>('a' + read.slot));
    EXPECT_EQ(memory_[read.slot].front(), static_cast<std::byte>('a' + read.slot));
  }
  EXPECT_EQ(queue_->counts().bytes, 5 * kLarge);
  EXPECT_EQ(queue_->counts().experts, 5);
}

TEST_F(ReadQueueTest, ReadsGuessesLastAndTakesThemBack) {
  Start(1);
  Submit(0, ReadUrgency::kDemand);
  reader_.WaitForCall();  // the thread has the first piece of 0
  Submit(1, ReadUrgency::kGuess);
  Submit(2, ReadUrgency::kGuess);
  Submit(3, ReadUrgency::kGuess);
  Submit(4, ReadUrgency::kAhead);
  Submit(5, ReadUrgency::kDemand);
  queue_->Promote(3);
  EXPECT_FALSE(queue_->Withdraw(0)) << "it is being read";
  EXPECT_TRUE(queue_->Withdraw(1));
  EXPECT_FALSE(queue_->Withdraw(1)) << "it has been taken back";
  reader_.Open();
  ASSERT_EQ(WaitForAll(5).size(), 5u);
  EXPECT_EQ(reader_.order(), (std::vector<std::size_t>{0, 0, 5, 5, 3, 3, 4, 4, 2, 2}));
  EXPECT_FALSE(queue_->Withdraw(2)) << "it has ended";
  Submit(1, ReadUrgency::kGuess);
  EXPECT_EQ(WaitForAll(1).size(), 1u) << "a slot may be read again";
}

TEST_F(ReadQueueTest, AnErrorEndsTheReadsOfItsSlotAlone) {
  reader_.broken_ = 1;
  reader_.Open();
  for (const int n_threads : {1, 4}) {
    Start(n_threads);
    for (std::uint32_t slot = 0; slot < 3; ++slot) Submit(slot, ReadUrgency::kDemand);
    const std::vector<EndedRead> ended = WaitForAll(3);
    ASSERT_EQ(ended.size(), 3u);
    for (const EndedRead& read : ended) EXPECT_EQ(read.status.has_value(), read.slot != 1);
    EXPECT_EQ(queue_->counts().experts, 2);
    Submit(1, ReadUrgency::kAhead);
    EXPECT_EQ(WaitForAll(1).size(), 1u) << "a slot may be read again";
  }
}

TEST_F(ReadQueueTest, StopsWhenReadsHaveEnded) {
  Start(2);
  for (std::uint32_t slot = 0; slot < 4; ++slot) Submit(slot, ReadUrgency::kDemand);
  reader_.WaitForCall();
  EXPECT_FALSE(queue_->WaitForEnd(std::chrono::milliseconds(5)));
  std::jthread opens([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reader_.Open();
  });
  EXPECT_TRUE(queue_->Stop(std::chrono::seconds(20)));
  EXPECT_LE(reader_.order().size(), 4u) << "pieces that wait are not read";
}

}  // namespace
}  // namespace fathom::experts
