// RowGather: gathers the compressed rows that a step's queries attend to in a layer of ratio 4,
// where each tensor rank caches some of the rows (--decode-context-parallel).
//
// The ranks have chosen together, so each rank knows the rows that all ranks need. A rank sends
// each chosen row that it caches once for all tokens of a sequence, into a buffer whose rows the
// attention reads in the order of the choice: the sums equal the sums of a rank that has all rows.
// A step whose rows do not fit is divided into several gathers, in the same way on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "kernels/layer_cache.h"

namespace fathom::distributed {

// Returns the rows of a buffer for steps of at most max_tokens; 0 if each rank caches all rows.
std::int64_t GatheredRows(const ModelConfig& config, const ModelShard& shard,
                          std::int64_t max_tokens);

// Owns its tables, allocated at the start. One thread.
class RowGather {
 public:
  // max_context: tokens that a sequence can have.
  RowGather(const ModelConfig& config, const ModelShard& shard, std::int64_t max_tokens,
            std::int64_t max_context);

  // False: this rank caches all rows, and there is nothing to gather.
  bool is_needed() const { return shard_.n > 1; }

  // Begins the gather of the tokens from `first` on, as many as the buffer has room for and at
  // least one; returns their number. Their chosen rows (selected [t, index_topk], of the whole
  // step) are replaced by rows of the buffer; -1 stays.
  std::int64_t Gather(const BatchView& batch, Matrix<std::int32_t> selected, std::int64_t first);

  // Rows [FirstRow(r), FirstRow(r + 1)) of the buffer belong to rank r.
  std::int64_t FirstRow(int rank) const { return firsts_[static_cast<std::size_t>(rank)]; }
  std::int64_t n_rows() const { return firsts_.back(); }
  std::span<const SequenceRow> own_rows() const { return own_rows_; }

 private:
  // The slot of a row among the rows of its rank, in the gather of one sequence.
  struct Gathered {
    std::int64_t turn = 0;
    std::int32_t slot = 0;
  };

  std::int32_t AssignSlot(std::int32_t sequence, std::int32_t row);

  CacheShard shard_;
  std::int64_t most_rows_;
  std::vector<Gathered> gathered_;    // by row
  std::int64_t turn_ = 0;             // sequences so far, in all gathers
  std::vector<std::int32_t> counts_;  // by rank
  std::vector<std::int64_t> firsts_;  // prefix sums of counts_
  std::vector<SequenceRow> own_rows_;
};

}  // namespace fathom::distributed
