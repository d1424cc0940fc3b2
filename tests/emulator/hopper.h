// Hopper: the asynchronous units of a cluster: barriers that count bytes, copies into shared
// memory, products of warpgroups. The host's implementation of tests/hopper/hopper.h.
//
// Every byte of shared memory records its last writer. Errors of the kernel, reported by name: a
// read of bytes that were never written; a use of bytes that another thread or a copy writes
// without a meeting between them (clock.h); a copy or product that reads bytes a thread wrote,
// without a proxy fence; a use of the target of an unfinished copy, or a write to bytes that an
// unfinished product reads; an arrival that a barrier does not expect. A copy happens, and a
// product is computed, at the earliest or the latest legal moment (Asynchrony).
//
// A shared address has the form of PTX: 32 bits, the lower 24 in the block, from kFirstAddress on,
// the upper 8 the block's rank in the cluster plus 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "tests/emulator/block.h"
#include "tests/emulator/clock.h"
#include "tests/emulator/matrix_unit.h"
#include "tests/emulator/tensor_tile.h"

namespace fathom::kernels::emulator {

// Registers that a product of a warpgroup uses: they must not be accessed until the product has
// been waited for, nor between a WgmmaFence and the product.
struct AsyncRegisters {
  int n_pending = 0;          // unfinished products
  std::uint64_t touched = 0;  // the thread's number of WgmmaFences at its last access
};

// A thread's part of a product of a warpgroup.
struct WarpgroupProduct {
  int n = 0;  // columns: a multiple of 8 up to 256
  MatrixFormat format = MatrixFormat::kF16;
  bool adds = false;  // adds to the accumulator; else the sum begins at +0
  AsyncRegisters* accumulator = nullptr;
  float* sums = nullptr;                 // n / 2 numbers
  AsyncRegisters* a = nullptr;           // null: A is in shared memory
  std::uint32_t* a_registers = nullptr;  // 4 pairs of numbers
  std::uint64_t a_tile = 0;              // descriptors of shared memory
  std::uint64_t b_tile = 0;
};

class Hopper {
 public:
  static constexpr std::uint32_t kFirstAddress = 1024;
  static constexpr int kWarpgroup = 128;
  static constexpr int kRegistersOfBlock = 65536;

  Hopper(RunningKernel& running, std::size_t n_blocks);

  // --- Shared memory; addresses may be in other blocks of the cluster ---
  static std::uint32_t SharedAddress(int rank, std::int64_t offset);
  void Read(Block& block, std::uint32_t address, std::span<std::byte> to);
  void Write(Block& block, std::uint32_t address, std::span<const std::byte> from);
  void FenceProxy(Block& block);

  // --- Barriers, 8 bytes of shared memory each ---
  void InitBarrier(Block& block, std::uint32_t address, int count);
  void FenceBarrierInit(Block& block);
  // Expects `bytes` more, and arrives.
  void Arrive(Block& block, std::uint32_t address, std::int64_t bytes);
  // Waits for the end of the phase with this parity.
  void WaitBarrier(Block& block, std::uint32_t address, int parity, const MeetingPoint& point);

  // --- Copies into the block's shared memory, counted by a barrier of the block ---
  void CopyBytes(Block& block, std::uint32_t to, const void* from, std::int64_t bytes,
                 std::uint32_t barrier);
  void CopyTile(Block& block, std::uint32_t to, const TensorMap& map, std::int64_t column,
                std::int64_t row, std::uint32_t barrier);
  // Lets the youngest unfinished copy end. Returns false if there is none.
  bool FinishOneCopy();

  // --- Products of warpgroups ---
  void Touch(Block& block, AsyncRegisters& registers);
  void WgmmaFence(Block& block);
  void Multiply(Block& block, WarpgroupProduct& product, const MeetingPoint& point);
  void CommitProducts(Block& block, const MeetingPoint& point);
  // Waits until at most `n_pending` committed groups are unfinished.
  void WaitProducts(Block& block, int n_pending, const MeetingPoint& point);

  // Sets the number of registers of each thread of the warpgroup. `more`: waits until they are
  // free.
  void SetRegisters(Block& block, int count, bool more, const MeetingPoint& point);

  // --- Meetings ---
  // Records that all threads of a block have met.
  void PassBlockBarrier(int rank);
  // Waits for `count` threads at the block's barrier `number`.
  void SyncNamed(Block& block, int number, int count, const MeetingPoint& point);
  void SyncCluster(Block& block, const MeetingPoint& point);

  // Sets the error if the cluster ends with an unfinished copy or product.
  void CheckNothingIsUnfinished();

 private:
  struct Byte {
    enum class Writer : std::uint8_t { kNobody, kThread, kUnfinishedCopy, kCopy, kBarrier };
    Writer writer = Writer::kNobody;
    std::uint16_t n_reading = 0;  // unfinished products that read the byte
    std::uint32_t component = 0;  // component of the clock: the thread, or the copy's barrier
    std::uint32_t count = 0;
  };
  struct Window {
    std::vector<std::byte> data;
    std::vector<Byte> bytes;
  };
  struct Place {
    Window* window;
    int rank;
    std::size_t offset;
  };
  struct Thread {
    Clock clock;
    std::uint64_t wgmma_fences = 0;
    bool inits_unfenced = false;
  };
  struct Barrier {
    int count = 0;
    int pending = 0;          // arrivals of this phase still to come
    std::int64_t bytes = 0;   // bytes still to come, less bytes that came unexpected
    std::uint32_t phase = 0;  // phases that have ended
    bool awaited = true;      // the end of the last phase has been seen
    std::size_t component = 0;
    std::size_t owner = 0;  // the thread that made the barrier, and its count then
    std::uint32_t owner_count = 0;
    Clock arrived;  // arrivals of this phase
    Clock ended;    // end of the last phase
  };
  // 16 bytes of a copy: n_zeros, n_bytes of the matrix, and zeros.
  struct Piece {
    std::size_t to = 0;  // offset in the window
    const std::byte* from = nullptr;
    std::size_t n_zeros = 0;
    std::size_t n_bytes = 0;
  };
  struct Copy {
    int rank = 0;
    std::uint32_t barrier = 0;
    std::vector<Piece> pieces;
  };
  struct Meeting {
    int n_arrived = 0;
    std::uint64_t n_passed = 0;
    Clock clock;
    Clock passed;
  };
  struct Product {
    int rank = 0;
    std::vector<WarpgroupProduct> threads;
    std::vector<std::size_t> reads;  // offsets of the read bytes of shared memory
  };
  struct Warpgroup {
    std::deque<Product> products;
    std::deque<int> groups;  // products of each committed group
    int n_uncommitted = 0;
    int registers = 0;  // registers of each thread
  };

  std::size_t Index(const Block& block) const { return Index(block.rank(), block.thread()); }
  std::size_t Index(int rank, int thread) const;
  Thread& FindThread(const Block& block) { return threads_[Index(block)]; }
  // Finds `bytes` bytes, or fails.
  Place Find(Block& block, std::uint32_t address, std::int64_t bytes, std::string_view what);
  Barrier& FindBarrier(Block& block, std::uint32_t address, std::string_view what);
  // Fails unless `clock` allows using the value of the byte. `runs_beside`: a copy or product does
  // so.
  void CheckWritten(Block& block, const Byte& byte, const Clock& clock, bool runs_beside,
                    std::string_view use, std::size_t offset);
  void CheckWritable(Block& block, const Byte& byte, const Clock& clock, bool runs_beside,
                     std::string_view use, std::size_t offset);
  // Ends the phase of a barrier that expects nothing more. Returns the error, or nothing.
  std::string_view EndPhase(Barrier& barrier);
  // Begins the last copy of copies_.
  void BeginCopy(Block& block, std::string_view operation);
  void Finish(const Copy& copy);
  void SetError(std::string_view what);
  void Meet(Block& block, Meeting& meeting, int count, const MeetingPoint& point);
  void Tick(std::size_t thread);

  static void MultiplyAll(std::span<void* const> calls);
  void BeginProduct(Block& block, std::span<void* const> calls);
  void Compute(Product& product);
  void FinishProduct(Warpgroup& warpgroup);
  Warpgroup& FindWarpgroup(const Block& block);

  RunningKernel& running_;
  std::vector<Window> windows_;
  std::vector<Thread> threads_;
  std::map<std::uint32_t, Barrier> barriers_;
  std::vector<Copy> copies_;
  std::map<int, Meeting> named_;  // by rank and number
  Meeting cluster_meeting_;
  std::vector<Warpgroup> warpgroups_;
  Clock common_;  // clock of all threads of a product
};

}  // namespace fathom::kernels::emulator
