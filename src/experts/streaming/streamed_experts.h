// StreamedExperts: routed experts that are read from disk when a step needs them, and stay in
// memory as long as there is room (docs/streaming.md).
//
// The place of an expert affects only the time of a step: the same bytes reach the same kernel, and
// rows are added in the order of their ids, whenever they were computed.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/page_preparer.h"
#include "base/pages.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/model_config.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/expert_guesses.h"
#include "experts/streaming/read_queue.h"
#include "experts/streaming/slot_directory.h"
#include "experts/streaming/streaming_options.h"
#include "model/block_read_ahead.h"
#include "model/expert_store.h"
#include "model/model.h"

namespace fathom::experts {

// For a backend that computes when its operations are called, in memory of the host. Allocates in
// Create and Bind only.
class StreamedExperts : public ExpertStore {
 public:
  // For all experts of a stage, in steps of at most max_tokens. Errors: fewer slots than
  // FewestExpertSlots.
  static Result<std::unique_ptr<StreamedExperts>> Create(Backend& backend,
                                                         const ModelConfig& config,
                                                         const Stage& stage,
                                                         std::int64_t max_tokens,
                                                         StreamingOptions options);
  // Returns the store of a model whose experts are streamed; nullptr: they are not.
  static StreamedExperts* FindIn(Model& model);
  // Returns within seconds, even if a read never does.
  ~StreamedExperts() override;

  bool ReadsExperts() const override { return true; }
  // Opens the files and measures the disk. Errors: as FileBlockReader, ExpertFiles and ReadQueue;
  // no memory for the slots.
  Status Bind(ModelWeights& weights, const BoundWeights& bound) override;

  // A draft pass fails no sequence: its drafts are verified, whatever they were computed from.
  void BeginPass(ForwardPass& pass) override;
  Status BeginBlock(ForwardPass& pass, std::int64_t block) override;
  Status EndBlock(std::int64_t block) override;
  Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) override;
  // Single sequences fail where a read fails or does not end.
  Status Await(const VisitExperts& visit) override;
  std::optional<GuessBuffers> BeginGuess(std::int64_t block, std::int64_t t) override;
  void EndGuess() override;

  StreamingCounts counts() const;  // any thread
  std::optional<StreamingCounts> streaming() const override { return counts(); }
  // Changes the size of the pool before the next step, between the fewest slots and
  // options.slots. Retired slots hold no memory; the coldest experts are evicted first. Any thread.
  void SetSlots(std::int64_t slots);
  // Allows or forbids guesses from the next step on, whatever StreamingOptions::guesses is: they
  // are forbidden while memory is short. Any thread.
  void AllowGuesses(bool allowed) { allows_guesses_ = allowed; }
  // Returns the bytes of the pool that have been prepared. The number grows while the system
  // provides memory, for which pages of files may have to be dropped. Any thread.
  std::size_t PreparedBytes() const { return preparer_.n_prepared(); }
  const ExpertFiles& files() const { return pool_->files; }

 protected:
  // Returns the errors of Create.
  static Status CheckOptions(const Backend& backend, const ModelConfig& config,
                             const StreamingOptions& options);
  // `options` must be accepted by CheckOptions.
  StreamedExperts(Backend& backend, const ModelConfig& config, const Stage& stage,
                  std::int64_t max_tokens, StreamingOptions options);

  // Returns true if this process computes an expert for the token at a position.
  virtual bool Computes(std::int64_t /*block*/, std::int32_t /*position*/,
                        std::int32_t /*expert*/) const {
    return true;
  }
  // Records that an expert of a block is missing for the tokens of a main pass that use it. Returns
  // true if no token is left.
  virtual bool FailUsers(ForwardPass& pass, std::int64_t block, std::int32_t expert,
                         const Error& error);

 private:
  using Clock = std::chrono::steady_clock;

  // The slots and the reader that fills them. Lives until the process ends if a read never returns.
  struct Pool {
    std::unique_ptr<BlockReader> reader;
    PageMemory memory;
    ExpertFiles files;
    std::unique_ptr<ReadQueue> queue;
  };
  // An expert of the running block.
  struct Waiting {
    std::int32_t expert;
    std::uint32_t slot;
    bool was_read;  // read from disk for this use
  };
  // An expert of a later block, leased until that block has run.
  struct Ahead {
    std::int64_t block;
    std::uint32_t slot;
    bool was_read;
  };

  // Opens the files, chooses how to read them, allocates the slots.
  Status OpenPool(const Checkpoint& checkpoint, Pool& pool);
  std::byte* SlotMemory(std::uint32_t slot) const {
    return pool_->memory.bytes().data() + slot * static_cast<std::size_t>(files().slot_bytes());
  }
  std::uint32_t ExpertKey(std::int64_t block, std::int32_t expert) const {
    return static_cast<std::uint32_t>(block * n_experts_ + expert);
  }
  MoeWeights& Moe(std::int64_t block) const;
  // Returns true if the block belongs to this process's stage.
  bool HasBlock(std::int64_t block) const {
    return block < n_layers_ ? block >= stage_.first_layer && block < stage_.end_layer
                             : stage_.is_last;
  }
  bool IsHashBlock(std::int64_t block) const { return block < n_hash_layers_; }

  // Writes the distinct experts of `ids` with the number of their uses, ascending, to wanted_.
  void ListWanted(Matrix<const std::int32_t> ids);
  bool StartRead(std::uint32_t key, ReadUrgency urgency);
  void SubmitRead(std::uint32_t key, std::uint32_t slot, ReadUrgency urgency);
  void PrepareSlotsBehind(std::uint32_t slot);
  // Starts as many reads of missing_ as there is room for.
  void StartMissing();
  bool MayStartMissing() const;
  // Handles the reads that have ended.
  void TakeEnded();
  void EndRead(const EndedRead& ended);
  void CountFailure();
  // Fails the users of an expert of the running block: some tokens, or the step if none is left.
  void FailExpert(std::int32_t expert, const Error& error);
  // Fails the sequences that use experts whose reads have not ended.
  void GiveUpReads(const Error& error);
  // Waits until an expert of waiting_ is ready or has failed, or a missing one may be read.
  void WaitForOne();
  bool MayGoOn() const;
  std::string DescribeWait(Clock::duration waited) const;
  std::string DescribeRead(std::uint32_t slot, Clock::duration waited) const;
  // Makes a lease of the experts in group_.
  ExpertLease LeaseGroup();
  void ReleaseGroup();
  // Cleans up after a failed step.
  void Cancel();
  void ResizePool();
  // Returns true if the last pass computes tokens of prompts.
  bool IsScan() const { return pass_ != nullptr && pass_->is_scan; }
  // Reads the experts that earlier runs used most into all slots but the fewest of a pool.
  void WarmUp();
  void SaveHeat();
  void Prefetch(const BatchView& batch);
  void PrefetchBlock(std::int64_t block, const BatchView& batch);
  bool MayReadAhead() const;
  // The most experts that are read together for a prompt: enough for the disk, few for the pool.
  std::size_t MostScanReads() const { return std::min<std::size_t>(12, directory_.n_slots() / 2); }
  void ReleaseAhead(std::int64_t block);  // -1: releases the experts of all blocks

  Backend& backend_;
  Stage stage_;
  std::int64_t n_layers_, n_hash_layers_, n_experts_, n_blocks_, experts_per_token_;
  StreamingOptions options_;
  std::unique_ptr<Pool> pool_;
  PagePreparer preparer_;            // prepares pages of the pool until it shrinks
  std::uint32_t last_slot_ = 0;      // the highest slot that has been used
  ModelWeights* weights_ = nullptr;  // null before Bind
  SlotDirectory directory_;
  ExpertGuesses guesses_;
  BlockReadAhead read_ahead_;
  std::vector<std::vector<ExpertWeights>> tables_;  // per block: data of leased experts only
  std::vector<ExpertSet> sets_;
  std::vector<std::uint8_t> is_checked_;  // by key: the scales are numbers
  std::vector<std::uint8_t> was_ahead_;   // by slot: read ahead and not used yet
  std::vector<std::uint8_t> hangs_;       // by slot: its read has not ended for longest_read

  // --- The running block ---
  ForwardPass* pass_ = nullptr;  // the pass that has begun last, or begun a block last
  std::int64_t block_ = -1;
  Matrix<std::int32_t> ids_;
  std::vector<std::int64_t> uses_;         // [experts]
  std::vector<std::int32_t> wanted_;       // ascending
  std::vector<std::int32_t> missing_;      // descending: without a slot
  std::vector<Waiting> waiting_;           // slots that are being filled
  std::vector<Waiting> group_;             // experts of the lease
  std::vector<std::uint8_t> is_in_group_;  // [experts]
  std::vector<std::int32_t> group_ids_;    // [t, k]
  std::vector<Ahead> ahead_;
  std::vector<EndedRead> ended_;
  Status failed_;  // why the step fails

  std::int64_t step_tokens_ = 0;
  std::vector<std::uint32_t> heat_;  // argument of save_heat
  Clock::time_point last_save_ = Clock::now();
  std::atomic<std::int64_t> wanted_slots_;
  std::atomic<bool> allows_guesses_ = true;

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  StreamingCounts counts_;
  Clock::time_point last_failures_[3];  // by number modulo 3
};

}  // namespace fathom::experts
