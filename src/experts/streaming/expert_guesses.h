// ExpertGuesses: experts that the next block will probably choose, read before it is known
// (docs/streaming.md).
//
// The router of the next block, applied to the streams before the experts of this block are added
// to them, is often right. A guess is read behind all other reads, into slots that are kept for
// guesses, so that a wrong one costs nothing but the time of an idle disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "experts/streaming/guess_policy.h"
#include "experts/streaming/read_queue.h"
#include "experts/streaming/slot_directory.h"
#include "kernels/laid_out_buffer.h"
#include "model/expert_store.h"
#include "model/streaming_counts.h"

namespace fathom {

// Changes the experts [t, experts per token] that are guessed for a block.
using ChangeGuesses = std::function<void(Matrix<std::int32_t> ids)>;

// One thread at a time.
class ExpertGuesses {
 public:
  // More tokens use so many experts that the disk is busy anyway.
  static constexpr std::int64_t kMostTokens = 8;
  static constexpr std::size_t kMostPerBlock = 4;
  static constexpr std::size_t kMostSlots = 12;

  // Submits the read of an expert into a slot.
  using StartRead = std::function<void(std::uint32_t key, std::uint32_t slot)>;

  // The directory outlives this object. `change` may be empty.
  ExpertGuesses(GuessMode mode, const ModelConfig& config, SlotDirectory& directory,
                ChangeGuesses change);
  // Before the first guess; backend and queue outlive the guesses. Error: kOutOfMemory.
  Status Bind(Backend& backend, ReadQueue& queue);

  // Allows guesses, as at first, or computes and reads none until they are allowed again. Before
  // BeginPass.
  void Allow(bool allowed) { is_allowed_ = allowed; }
  // A pass begins. n_tokens: of a main pass whose time tells whether guesses pay; 0: of none. What
  // was guessed for the pass before is dropped.
  void BeginPass(std::int64_t n_tokens);
  // The time of the last pass is complete: another goes on.
  void EndStep();
  // Brings the slots that are kept for guesses to their number, after the pool may have changed.
  void KeepReserve();

  // ExpertStore::BeginGuess and EndGuess. `has_expert`: whether this process has an expert's bytes.
  std::optional<GuessBuffers> Begin(std::int64_t block, std::int64_t t);
  void End(const std::function<bool(std::uint32_t key)>& has_expert);

  // A block needs an expert. True: the expert has the slot of a guess, whose lease the block now
  // has.
  bool Use(std::uint32_t key);
  // All experts of the block are leased or missing: those that Use has returned become experts as
  // all others.
  void AdoptUsed();
  // Begins the reads of new guesses. Called behind the reads that the block waits for.
  void StartReads(const StartRead& start);
  // The read of a guessed expert (SlotDirectory::IsGuess) has ended.
  void EndRead(std::uint32_t slot, bool is_read);
  // A block has run.
  void EndBlock(std::int64_t block);

  const GuessCounts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Guess {
    std::int64_t block;
    std::uint32_t key;
    std::uint32_t slot = SlotDirectory::kNone;  // kNone: it is not read
    bool has_expired = false;                   // but is still being read
  };
  struct Candidate {
    std::uint32_t key;
    float weight;
  };
  // The decoding step that is timed.
  struct TimedStep {
    std::int64_t n_tokens = 0;  // 0: none is
    Clock::time_point begin, end;
    double busy_begin = 0, busy_end = 0;  // ReadCounts::busy_seconds
  };

  GuessBuffers LayOut(BufferLayout& memory) const;
  void ListCandidates(const std::function<bool(std::uint32_t key)>& has_expert);
  void Add(std::uint32_t key);
  void Expire(std::int64_t block);  // -1: of all blocks
  std::vector<Guess>::iterator Find(std::uint32_t key);

  bool Reads() const { return is_allowed_ && policy_.Reads(); }

  GuessPolicy policy_;
  bool is_allowed_ = true;
  std::int64_t hidden_size_, n_experts_, experts_per_token_;
  SlotDirectory& directory_;
  ChangeGuesses change_;
  ReadQueue* queue_ = nullptr;
  LaidOutBuffer<GuessBuffers> buffers_;
  std::int64_t block_ = -1;  // between Begin and End
  std::int64_t n_rows_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<Guess> guesses_;
  std::vector<std::uint32_t> used_;  // slots
  TimedStep step_;
  GuessCounts counts_;
};

}  // namespace fathom
