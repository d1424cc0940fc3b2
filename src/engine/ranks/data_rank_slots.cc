#include "engine/ranks/data_rank_slots.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace fathom::engine {

void SortOffers(std::span<DataRankOffer> offers) {
  const auto key = [](const DataRankOffer& offer) {
    return std::tuple(-offer.n_shared, offer.soon, offer.n_running, offer.n_tokens,
                      offer.last_chosen, offer.data_rank);
  };
  std::ranges::sort(offers, {}, key);
}

DataRankSlots::DataRankSlots(std::int64_t n_slots, const DataRanks& ranks)
    : ranks_(ranks),
      free_(static_cast<std::size_t>(ranks.n)),
      last_chosen_(static_cast<std::size_t>(ranks.n)) {
  for (std::int64_t slot = n_slots; slot > 0; --slot) {
    Return(static_cast<std::int32_t>(slot - 1));
  }
}

bool DataRankSlots::HasFree() const {
  return std::ranges::any_of(free_, [](const auto& slots) { return !slots.empty(); });
}

std::int32_t DataRankSlots::Take(int data_rank) {
  std::vector<std::int32_t>& free = free_[static_cast<std::size_t>(data_rank)];
  Check(!free.empty(), "the data rank has a free slot");
  const std::int32_t slot = free.back();
  free.pop_back();
  return slot;
}

void DataRankSlots::Return(std::int32_t slot) {
  free_[static_cast<std::size_t>(ranks_.Owner(slot))].push_back(slot);
}

}  // namespace fathom::engine
