// ReadQueue: many concurrent reads of experts, each by a thread that waits for the disk.
//
// A disk is fast only with many requests: experts are divided into pieces, and the threads read the
// pieces of all wanted experts. Blocking reads work everywhere; io_uring, which would save the
// threads, is blocked in many containers.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "checkpoint/block_reader.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/use_orders.h"

namespace fathom::experts {

// Bytes of one read: large enough for the full speed of a disk, and small enough that an expert of
// Flash keeps seven threads busy.
inline constexpr std::int64_t kReadPieceBytes = std::int64_t{2} << 20;

// More urgent reads come first. Within one urgency, experts are read in the order of Submit.
enum class ReadUrgency : std::uint8_t { kDemand, kAhead, kGuess };
inline constexpr std::size_t kReadUrgencies = 3;

// A read that has ended.
struct EndedRead {
  std::uint32_t slot = 0;
  Status status;
};

// Totals since the start.
struct ReadCounts {
  std::int64_t bytes = 0;  // bytes of blocks, as a disk would count them
  std::int64_t experts = 0;
  double busy_seconds = 0;  // time with at least one read in flight
};

// Reader, slots and ranges must outlive the threads: if Stop returns false, until the process ends.
// Submit, Promote, Withdraw, WaitForEnd and TakeEnded are for one thread.
class ReadQueue {
 public:
  // For reads into at most n_slots slots. Errors: the system starts no more threads.
  static Result<std::unique_ptr<ReadQueue>> Create(BlockReader& reader, std::size_t n_slots,
                                                   int n_threads);
  // Calls Stop; ends the process if it returns false.
  ~ReadQueue();

  // Reads `ranges` into the slot, whose memory begins at `memory`. The slot must not be in another
  // read.
  void Submit(std::uint32_t slot, std::span<const FileRange> ranges, std::byte* memory,
              ReadUrgency urgency);
  // Makes a read that may still wait a demand read.
  void Promote(std::uint32_t slot);
  // Cancels a read of which no piece has begun; TakeEnded will not return it. False: the read ends
  // like others.
  bool Withdraw(std::uint32_t slot);
  // Waits until there is an ended read that TakeEnded has not returned, at most `longest`. True:
  // there is one.
  bool WaitForEnd(std::chrono::nanoseconds longest);
  // Appends the reads that have ended since the last call.
  void TakeEnded(std::vector<EndedRead>& ended);

  // May be called from any thread.
  ReadCounts counts() const;

  // Ends the threads as soon as they have read the pieces that they are reading; pieces that wait
  // are not read. False: a thread still reads after `longest`, perhaps forever; it ends with the
  // process.
  bool Stop(std::chrono::nanoseconds longest = std::chrono::seconds(2));

 private:
  using Clock = std::chrono::steady_clock;

  // The read of one slot.
  struct Read {
    std::span<const FileRange> ranges;
    std::byte* memory = nullptr;
    ReadUrgency urgency = ReadUrgency::kDemand;
    std::size_t range = 0;   // range of the next piece
    std::int64_t begin = 0;  // offset of the next piece in that range
    int n_reading = 0;       // pieces that threads are reading
    Status status;           // the first error

    bool HasPiece() const { return range < ranges.size(); }
  };
  struct Piece {
    std::uint32_t slot;
    std::size_t file;
    std::int64_t offset;
    std::int64_t n_needed;
    std::span<std::byte> to;
  };

  ReadQueue(BlockReader& reader, std::size_t n_slots);
  void Run();
  // Returns the first of the most urgent reads; KeyLists::kNone: there are none.
  std::uint32_t FirstSlot() const;
  Piece TakePiece();
  void EndPiece(const Piece& piece, Status status);
  KeyLists::List& ListOf(const Read& read) {
    return lists_[static_cast<std::size_t>(read.urgency)];
  }

  BlockReader& reader_;
  std::vector<std::thread> threads_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable has_piece_, has_ended_, has_stopped_;
  std::vector<Read> reads_;                           // by slot
  KeyLists waiting_;                                  // slots of reads that have pieces left
  std::array<KeyLists::List, kReadUrgencies> lists_;  // by urgency
  std::vector<EndedRead> ended_;
  ReadCounts counts_;
  Clock::time_point busy_since_;
  int n_reading_ = 0;
  int n_running_ = 0;  // threads that are running
  bool stops_ = false;
};

}  // namespace fathom::experts
