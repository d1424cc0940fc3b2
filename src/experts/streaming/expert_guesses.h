// ExpertGuesses: guesses the experts that the next block will choose and reads them early
// (docs/streaming.md).
//
// The router of the next block, applied to the streams before the experts of this block are added
// to them, is often right. A guess is read after all other reads, into slots that are reserved for
// guesses, so that a wrong guess costs nothing but the time of an idle disk.
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

namespace fathom::experts {

// Changes the experts [t, experts per token] that are guessed for a block.
using ChangeGuesses = std::function<void(Matrix<std::int32_t> ids)>;

// One thread at a time.
class ExpertGuesses {
 public:
  // The most tokens of a pass with guesses. More tokens use so many experts that the disk is busy
  // anyway.
  static constexpr std::int64_t kMostTokens = 8;
  static constexpr std::size_t kMostPerBlock = 4;
  static constexpr std::size_t kMostSlots = 12;

  // Submits the read of an expert into a slot.
  using StartRead = std::function<void(std::uint32_t key, std::uint32_t slot)>;

  // The directory must outlive this object. `change` may be empty.
  ExpertGuesses(GuessMode mode, const ModelConfig& config, SlotDirectory& directory,
                ChangeGuesses change);
  // Call before the first guess; backend and queue must outlive this object. Error: kOutOfMemory.
  Status Bind(Backend& backend, ReadQueue& queue);

  // Allows guesses (the default), or stops computing and reading them until they are allowed again.
  // Call before BeginPass.
  void Allow(bool allowed) { is_allowed_ = allowed; }
  // Begins a pass and drops the guesses of the pass before. n_tokens: the tokens of a main pass
  // whose time shows whether guesses pay; 0: any other pass.
  void BeginPass(std::int64_t n_tokens);
  // Ends the timing of the last pass, because another pass continues.
  void EndStep();
  // Restores the number of slots reserved for guesses after the pool may have changed.
  void KeepReserve();

  // Implement ExpertStore::BeginGuess and EndGuess. `has_expert`: true if this process has an
  // expert's bytes.
  std::optional<GuessBuffers> Begin(std::int64_t block, std::int64_t t);
  void End(const std::function<bool(std::uint32_t key)>& has_expert);

  // Called when a block needs an expert. True: the expert has the slot of a guess, whose lease now
  // belongs to the block.
  bool Use(std::uint32_t key);
  // Called when all experts of the block are leased or missing: turns the guesses that Use has
  // returned into ordinary experts.
  void AdoptUsed();
  // Begins the reads of new guesses. Called after the reads that the block waits for.
  void StartReads(const StartRead& start);
  // Called when the read of a guessed expert (SlotDirectory::IsGuess) has ended.
  void EndRead(std::uint32_t slot, bool is_read);
  // Called when a block has run.
  void EndBlock(std::int64_t block);

  const GuessCounts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Guess {
    std::int64_t block;
    std::uint32_t key;
    std::uint32_t slot = SlotDirectory::kNone;  // kNone: it is not being read
    bool has_expired = false;                   // expired, but still being read
  };
  struct Candidate {
    std::uint32_t key;
    float weight;
  };
  // The decoding step that is timed.
  struct TimedStep {
    std::int64_t n_tokens = 0;  // tokens of the step; 0: no step is timed
    Clock::time_point begin, end;
    double busy_begin = 0, busy_end = 0;  // ReadCounts::busy_seconds
  };

  GuessBuffers LayOut(BufferLayout& memory) const;
  void ListCandidates(const std::function<bool(std::uint32_t key)>& has_expert);
  void Add(std::uint32_t key);
  void Expire(std::int64_t block);  // -1: expires the guesses of all blocks
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

}  // namespace fathom::experts
