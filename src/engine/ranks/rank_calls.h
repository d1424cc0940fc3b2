// What the first rank of several tells the others: which call of the model comes next, with which
// arguments, and what has become of the caches since the last one.
//
// Only the first rank decides: it alone has requests, a schedule, a prefix cache and an arena of
// blocks. The others have the tables that follow from its decisions, for the sequences that a step
// computes.
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

namespace fathom {

// The first number of a message.
enum class RankCall : std::int64_t {
  kEnd,           // nothing: the run is over
  kLoad,          // options
  kForward,       // changes of the caches, batch
  kLogits,        // rows
  kForwardDraft,  // changes of the caches, batch, stream rows, source
  kDraftLogits,   // rows
  kDisk,          // a DiskCall (engine/ranks/rank_disks.h) and what belongs to it
};

// What every rank does behind each Forward, with the tokens that it had: all of them the same.
using AfterForward = std::function<Status(std::int64_t n_tokens)>;

// The sizes of a model that all ranks load alike.
void AddSizes(const ModelOptions& options, RankMessage& message);
void TakeSizes(RankMessage& message, ModelOptions& options);

void AddBatch(const BatchView& batch, RankMessage& message);
void TakeBatch(RankMessage& message, Batch& batch);

void AddRows(std::span<const std::int32_t> rows, RankMessage& message);
void TakeRows(RankMessage& message, std::vector<std::int32_t>& rows);

// The first rank's knowledge of what the others know of its caches.
class CacheShadow {
 public:
  // From now on it notes what the cache copies. Must not outlive the cache.
  explicit CacheShadow(SequenceCache& cache);
  ~CacheShadow();
  CacheShadow(const CacheShadow&) = delete;
  CacheShadow& operator=(const CacheShadow&) = delete;

  // What was copied since the last call, and what has changed of the batch's sequences since they
  // were last in one.
  void AddChanges(const BatchView& batch, RankMessage& message);

 private:
  void AddEntries(BlockKind kind, std::int32_t sequence, std::int64_t end, RankMessage& message);

  SequenceCache& cache_;
  std::vector<CacheCopy> copies_;
  std::vector<SequenceState> states_;
  std::array<std::vector<std::int32_t>, 2> tables_;  // of each kind [sequences, width]
  std::vector<std::int64_t> changed_;
};

// Does the same in the cache of another rank.
void TakeChanges(RankMessage& message, SequenceCache& cache);

}  // namespace fathom
