// LocalBatch: the part of a batch that a data rank computes, its own sequences by their own slots.
// Of the whole batch, which all ranks know, it remembers who has which row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"
#include "model/model_ranks.h"

namespace fathom {

// One thread at a time. Allocates at construction only.
class LocalBatch {
 public:
  LocalBatch(std::int64_t max_tokens, std::int64_t max_segments, int n_data);

  // From now on everything is said of this batch. The same on all ranks of a stage.
  void Take(const BatchView& whole, const ModelShard& share);
  void Clear();

  BatchView View() const { return own_.View(); }
  std::span<const std::int64_t> tokens_of_rank() const { return tokens_of_rank_; }  // data ranks
  // Of a row of the whole batch: the data rank that has it, and its row there.
  int OwnerOf(std::int64_t row) const { return places_[static_cast<std::size_t>(row)].rank; }
  std::int64_t RowOf(std::int64_t row) const { return places_[static_cast<std::size_t>(row)].row; }

 private:
  struct Place {
    int rank = 0;
    std::int64_t row = 0;
  };
  Batch own_;
  std::vector<std::int64_t> tokens_of_rank_;
  std::vector<Place> places_;
};

}  // namespace fathom
