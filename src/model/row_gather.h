// RowGather: the compressed rows that a step's queries attend to in a layer of ratio 4, where every
// tensor rank caches some of them (--decode-context-parallel).
//
// The ranks have chosen together, so each knows which rows all of them need. Those that a rank has
// go to the others, each once for all tokens of a sequence, into a buffer whose rows the attention
// reads in the order of the choice: the sums are those of a rank that has all rows. A step whose
// rows do not fit is cut into several gatherings, in the same way by all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "kernels/layer_cache.h"
#include "model/model_ranks.h"

namespace fathom {

// Rows that the buffer needs for steps of at most max_tokens; 0 if each rank caches all.
std::int64_t GatheredRows(const ModelConfig& config, const ModelShard& share,
                          std::int64_t max_tokens);

// Owns its tables, allocated at the start. One thread.
class RowGather {
 public:
  // max_context: tokens that a sequence can have.
  RowGather(const ModelConfig& config, const ModelShard& share, std::int64_t max_tokens,
            std::int64_t max_context);

  // False: this rank caches all rows, and there is nothing to gather.
  bool is_needed() const { return share_.n > 1; }

  // Of the tokens of a step from `first` on, as many as there is room for the rows of, at least
  // one: how many. Their chosen rows (selected [t, index_topk], of the whole step) become rows of
  // the buffer; -1 stays.
  std::int64_t Take(const BatchView& batch, Matrix<std::int32_t> selected, std::int64_t first);

  // What Take has gathered: rows [FirstOf(r), FirstOf(r + 1)) of the buffer are rank r's.
  std::int64_t FirstOf(int rank) const { return firsts_[static_cast<std::size_t>(rank)]; }
  std::int64_t n_rows() const { return firsts_.back(); }
  std::span<const SequenceRow> own_rows() const { return own_rows_; }

 private:
  // Where a row is among those of its rank, if it has been taken for this sequence.
  struct Taken {
    std::int64_t turn = 0;
    std::int32_t place = 0;
  };

  std::int32_t PlaceOf(std::int32_t sequence, std::int32_t row);

  CacheShard share_;
  std::int64_t most_rows_;
  std::vector<Taken> taken_;          // by row
  std::int64_t turn_ = 0;             // of a sequence in a gathering
  std::vector<std::int32_t> counts_;  // by rank
  std::vector<std::int64_t> firsts_;  // the same, and the end
  std::vector<SequenceRow> own_rows_;
};

}  // namespace fathom
