// LocalRows: the rows of a batch that this process computes: its own sequences, by their own slots.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/data_ranks.h"
#include "model/batch.h"

namespace fathom::model {

// Counts the tokens of each data rank in a batch of all ranks. tokens [data.n].
void CountTokens(const BatchView& whole, const DataRanks& data, std::span<std::int64_t> tokens);

// Must not be moved after Assign. One thread at a time.
class LocalRows {
 public:
  // Makes room for batches of several data ranks, so that Assign does not allocate.
  void Reserve(std::int64_t max_tokens, std::int64_t max_segments);
  // Sets the batch of all ranks that the getters describe. Its arrays must stay valid.
  void Assign(const BatchView& whole, const DataRanks& data);

  // Returns the local rows; their sequences are slots of this process's caches.
  const BatchView& batch() const { return batch_; }
  // Returns the local row of a row of the whole batch; -1: another rank has the row.
  std::int64_t LocalRow(std::int64_t row) const {
    return rows_.empty() ? row : rows_[static_cast<std::size_t>(row)];
  }

 private:
  BatchView batch_;
  Batch own_;                       // with several data ranks
  std::vector<std::int64_t> rows_;  // by row of the whole batch; empty: all rows are local
};

}  // namespace fathom::model
