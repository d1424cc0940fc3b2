// Messages from the first rank to the others: the next call of the model with its arguments, and
// the changes of the caches since the last call.
// Only the first rank decides: it has the requests, the schedule, the prefix cache and the arena of
// blocks. The other ranks have copies of the block tables, for the sequences of a step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/rank_message.h"
#include "kv_cache/sequence_cache.h"
#include "model/batch.h"
#include "model/model.h"

namespace fathom::engine {

// The first number of a message. The comments list the arguments.
enum class RankCall : std::int64_t {
  kEnd,      // none: the ranks stop
  kLoad,     // options
  kForward,  // changes of the caches, batch
  kLogits,   // rows
  kCommit,   // changes of the caches, batch, stream rows, source
  kPropose,  // requests; messages with the chosen tokens follow where every rank needs them
  kDisk,     // a DiskCall (engine/ranks/rank_disks.h) and its arguments
  // A pass in pieces; other calls may come between these.
  kBeginPass,     // see kForward
  kContinuePass,  // none: every rank runs the next layer
  kStopPass,      // none
};

// Runs on every rank after each Forward and each pass in pieces. n_tokens is equal on every rank.
using AfterForward = std::function<Status(std::int64_t n_tokens)>;

// Write and read the sizes of the model, which are equal on all ranks.
void WriteSizes(const ModelOptions& options, RankMessage& message);
void ReadSizes(RankMessage& message, ModelOptions& options);

void WriteBatch(const BatchView& batch, RankMessage& message);
void ReadBatch(RankMessage& message, Batch& batch);

void WriteRequests(std::span<const DraftRequest> requests, RankMessage& message);
void ReadRequests(RankMessage& message, std::vector<DraftRequest>& requests);

// The caches of the other ranks, as the first rank knows them.
class CacheShadow {
 public:
  // Records the cache's copies of blocks. Must not outlive the cache.
  explicit CacheShadow(SequenceCache& cache);
  ~CacheShadow();
  CacheShadow(const CacheShadow&) = delete;
  CacheShadow& operator=(const CacheShadow&) = delete;

  // Writes the copies of blocks since the last call, and the changes to the batch's sequences since
  // their last batch.
  void WriteChanges(const BatchView& batch, RankMessage& message);

 private:
  void WriteEntries(BlockKind kind, std::int32_t sequence, std::int64_t end, RankMessage& message);

  SequenceCache& cache_;
  std::vector<CacheCopy> copies_;
  std::vector<SequenceState> states_;
  std::array<std::vector<std::int32_t>, 2> tables_;  // for each kind: [sequences, width]
  std::vector<std::int64_t> changed_;
};

// Applies the changes to the cache of another rank.
void ReadChanges(RankMessage& message, SequenceCache& cache);

}  // namespace fathom::engine
