// Block: a block of an emulated kernel, whose threads take turns.
//
// A thread runs until it waits for others: at SyncBlock for the block, in a collective for its wave
// or warpgroup, or for an action of other blocks, copies or devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu/driver.h"
#include "kernels/gpu/limits.h"
#include "tests/emulator/fiber.h"
#include "tests/emulator/shared_array.h"

namespace fathom::kernels::emulator {

class Hopper;

// A kernel of the device sources, compiled for the host.
struct Kernel {
  void (*run)(const void* arguments) = nullptr;  // runs one thread
  std::size_t argument_bytes = 0;
  int most_threads = kMaxBlockThreads;
  int cluster = 1;  // blocks that run together, neighbours in x
};

// A line of a kernel where threads meet. The strings are literals of the kernel's source: equal
// strings have one address.
struct MeetingPoint {
  const char* operation = "";  // "SyncBlock", "Shuffle"
  const char* file = "";
  int line = 0;
  friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};

// The time at which asynchronous work happens: immediately, or when no thread can continue without
// it. A correct kernel gives the same bits.
enum class Asynchrony : std::uint8_t { kEarliest, kLatest };

// A running kernel: the state that its blocks share.
struct RunningKernel {
  std::string_view name;
  Kernel kernel;
  GpuGrid grid;
  const void* arguments = nullptr;
  int wave_size = 32;
  std::int64_t shared_bytes = 0;  // the most of a block
  Asynchrony asynchrony = Asynchrony::kEarliest;
  bool starts_early = false;         // launched to start early
  bool earlier_kernels_run = false;  // BlockRunner::RunEarly
  std::string error;                 // the first error, which ends the run
};

// The blocks of a cluster, and Hopper's units once one of the blocks uses them.
struct Cluster;

class Block {
 public:
  Block();
  ~Block();

  // Removes the shared arrays, to run another kernel.
  void Prepare(RunningKernel& running, Cluster& cluster, int rank);
  // Brings all threads to the beginning of the kernel.
  void Start(std::int64_t x, int y);
  // Lets every thread that can continue run once, in the given order. With `by_waves`, runs one
  // wave after the other, each until it cannot continue; the order must not mix waves. This is
  // faster: the stacks of a wave stay in the nearest cache. Returns false if no thread could
  // continue.
  bool Visit(std::span<const std::int64_t> order, bool by_waves);
  bool HasEnded() const;
  // Returns true if a thread waits for something outside its block.
  bool WaitsForOthers() const;
  // Describes the first threads that wait for different things, and the things they wait for.
  std::string DescribeWaiting() const;
  // Returns true if a thread has called StartDependents.
  bool HasStartedDependents() const { return dependents_started_.line > 0; }
  // Sets the error if the block has ended without the WaitForEarlier of a kernel that starts early.
  void CheckWaited();
  // Sets the error if the block, which cannot run further while earlier kernels run, has made a
  // forbidden use of memory.
  void CheckEarlyUses();

  // --- For the language: called by the running thread ---
  static Block& Running() { return *running_block_; }
  int thread() const { return thread_; }
  std::int64_t block_x() const { return block_x_; }
  int block_y() const { return block_y_; }
  const GpuGrid& grid() const { return running_->grid; }
  int wave_size() const { return running_->wave_size; }
  int rank() const { return rank_; }  // rank in the cluster
  Cluster& cluster() { return *cluster_; }
  // Returns Hopper's units, which the first use makes.
  Hopper& hopper();

  void SyncBlock(const MeetingPoint& point);
  // Passes `value` to the wave, and returns the value of lane `from`.
  std::uint64_t Exchange(std::uint64_t value, int from, const MeetingPoint& point);
  // Waits for the `size` threads of the group (a wave, or 128 threads) and lets the last of them
  // call run(arguments of all threads), once.
  void Meet(int size, void* argument, void (*run)(std::span<void* const>),
            const MeetingPoint& point);
  // Waits until ready() is true.
  template <class Ready>
  void WaitUntil(const Ready& ready, const MeetingPoint& point) {
    Wait({[](const void* r) { return (*static_cast<const Ready*>(r))(); }, &ready}, point);
  }
  // Lets the next kernel begin, if it starts early.
  void StartDependents(const MeetingPoint& point);
  // Waits for the end of the kernels that were launched before, if this kernel starts early.
  void WaitForEarlier(const MeetingPoint& point);
  // Records that the running thread has used memory that is forbidden while earlier kernels run.
  // `use`: "reads byte 1 of ...".
  void NoteEarlyUse(const std::string& use);
  SharedMemory& FindShared(const void* site, std::string_view name, std::int64_t count,
                           std::int64_t element_bytes, std::int64_t dynamic_end);
  void CheckRead(const SharedMemory& memory, std::int64_t index);
  void CheckWrite(const SharedMemory& memory, std::int64_t index);
  // Sets the error, which ends the run, and never resumes the thread: nothing on its stack is
  // destroyed except `what`, the text after the names of the kernel and the block. No other object
  // on the stack may own memory.
  [[noreturn]] void Fail(std::string what);

 private:
  enum class State : std::uint8_t { kReady, kAtBlock, kInGroup, kWaiting, kEnded };
  // The values of a collective. A thread may reach the next collective before the others have read
  // the values: two buffers in turns suffice, because it cannot reach the one after the next.
  struct Wave {
    std::uint64_t values[2][64] = {};
    int turn = 0;
    int n_arrived = 0;
  };
  struct Condition {
    bool (*is_true)(const void*) = nullptr;
    const void* argument = nullptr;
  };

  static void RunThread(void* block);
  void SetError(std::string_view what);
  void Wait(const Condition& condition, const MeetingPoint& point);
  // Returns the next thread of the order that can continue; -1: none.
  std::int64_t TakeReady();
  // Leaves the running thread, and continues with the next one.
  void Pause();
  // Checks that the threads [first, first + size) meet, and lets them continue.
  void ReleaseGroup(std::size_t first, std::size_t size);
  // Returns true if all threads are at the same barrier.
  bool CanPassBarrier() const;
  std::string Describe(int thread) const;

  static inline constinit thread_local Block* running_block_ = nullptr;

  RunningKernel* running_ = nullptr;
  Cluster* cluster_ = nullptr;
  int rank_ = 0;
  std::int64_t block_x_ = 0;
  int block_y_ = 0;
  int thread_ = 0;
  // The visit: the part of the order that takes turns, and the position in it.
  std::span<const std::int64_t> order_;
  std::size_t part_begin_ = 0;
  std::size_t part_end_ = 0;
  std::size_t next_ = 0;
  bool has_moved_ = false;  // since the last visit of part_begin_
  std::uint64_t epoch_ = 0;
  std::uint64_t first_epoch_ = 0;  // epoch at the start of the block
  bool waits_for_earlier_ = false;
  MeetingPoint dependents_started_;
  std::string early_use_;  // the first use of forbidden memory

  // One for each thread of the largest block so far.
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<State> states_;
  std::vector<MeetingPoint> points_;  // where threads wait, or waited last
  std::vector<Condition> conditions_;
  std::vector<void*> met_;  // the arguments of Meet
  std::vector<int> n_met_;  // threads that have arrived, by the group's first thread and size
  std::vector<Wave> waves_;
  struct OwnedShared;
  std::vector<std::unique_ptr<OwnedShared>> shared_;
  std::int64_t static_bytes_ = 0;
};

struct Cluster {
  Cluster();
  ~Cluster();
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<Hopper> hopper;
};

}  // namespace fathom::kernels::emulator
