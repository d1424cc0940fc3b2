// DataRankSlots: tracks free slots, and chooses the data rank for a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/data_ranks.h"

namespace fathom::engine {

// The offer of a data rank to a sequence. The best offer shares most of the text; among equals,
// shares it now rather than soon; then has the least work.
struct DataRankOffer {
  int data_rank = 0;
  std::int64_t n_shared = 0;  // blocks of the text that are not computed again there
  bool soon = false;          // n_shared counts blocks that another sequence is computing
  std::int64_t n_running = 0;
  std::int64_t n_tokens = 0;     // tokens of the rank's running sequences
  std::int64_t last_chosen = 0;  // number of the last choice that took the rank: ranks take turns
};
void SortOffers(std::span<DataRankOffer> offers);

// One thread at a time.
class DataRankSlots {
 public:
  DataRankSlots(std::int64_t n_slots, const DataRanks& ranks);

  bool HasFree() const;
  std::int64_t n_free(int data_rank) const { return std::ssize(Free(data_rank)); }
  // Returns the slot that Take would allocate; one must be free.
  std::int32_t Next(int data_rank) const { return Free(data_rank).back(); }
  std::int32_t Take(int data_rank);
  void Return(std::int32_t slot);

  // Returns the number of the choice that took the rank last.
  std::int64_t last_chosen(int data_rank) const {
    return last_chosen_[static_cast<std::size_t>(data_rank)];
  }
  void Choose(int data_rank) { last_chosen_[static_cast<std::size_t>(data_rank)] = ++n_chosen_; }

 private:
  const std::vector<std::int32_t>& Free(int data_rank) const {
    return free_[static_cast<std::size_t>(data_rank)];
  }

  const DataRanks ranks_;
  std::vector<std::vector<std::int32_t>> free_;  // by data rank
  std::vector<std::int64_t> last_chosen_;
  std::int64_t n_chosen_ = 0;
};

}  // namespace fathom::engine
