// DataRankSlots: which slots are free, and on which data rank a sequence should run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/data_ranks.h"

namespace fathom {

// What speaks for a data rank. The best comes first: the one that has most of the text; of those,
// one that has it now before one that will have it; then the one that has least to do.
struct DataRankOffer {
  int data_rank = 0;
  std::int64_t n_shared = 0;  // blocks of the text that need not be computed there
  bool soon = false;          // when another sequence has computed them
  std::int64_t n_running = 0;
  std::int64_t n_tokens = 0;     // of those that run
  std::int64_t last_chosen = 0;  // for a sequence before this one: ranks take turns
};
void SortOffers(std::span<DataRankOffer> offers);

// One thread at a time.
class DataRankSlots {
 public:
  DataRankSlots(std::int64_t n_slots, const DataRanks& ranks);

  bool HasFree() const;
  std::int64_t n_free(int data_rank) const { return std::ssize(Free(data_rank)); }
  // The one that Take takes; there is one.
  std::int32_t Next(int data_rank) const { return Free(data_rank).back(); }
  std::int32_t Take(int data_rank);
  void Return(std::int32_t slot);

  // When the rank was chosen last, by a count of choices.
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

}  // namespace fathom
