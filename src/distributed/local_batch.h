// LocalBatch: the part of a batch that a data rank computes: its own sequences, by their own slots.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distributed/model_ranks.h"
#include "model/batch.h"

namespace fathom {

// Counts the tokens of each data rank in a batch of all ranks. tokens [data.n].
void CountTokens(const BatchView& whole, const DataRanks& data, std::span<std::int64_t> tokens);

// One thread at a time. Allocates at construction only.
class LocalBatch {
 public:
  LocalBatch(std::int64_t max_tokens, std::int64_t max_segments);

  // Sets the batch of all ranks that the getters describe.
  void Assign(const BatchView& whole, const ModelShard& shard);

  BatchView View() const { return local_.View(); }
  // For each row of the whole batch: its row in View(), or -1 if another rank has the row.
  std::span<const std::int64_t> local_rows() const { return local_rows_; }
  // Returns the data rank that has a row of the whole batch.
  int Owner(std::int64_t row) const { return owners_[static_cast<std::size_t>(row)]; }

 private:
  Batch local_;
  std::vector<std::int64_t> local_rows_;
  std::vector<int> owners_;
};

}  // namespace fathom
