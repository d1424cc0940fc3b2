#include "engine/ranks/data_rank_slots.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom::engine {
namespace {

std::vector<int> Order(std::vector<DataRankOffer> offers) {
  SortOffers(offers);
  std::vector<int> ranks;
  for (const DataRankOffer& offer : offers) {
    ranks.push_back(offer.data_rank);
  }
  return ranks;
}

TEST(DataRankSlots, SlotsAreThoseOfTheirRank) {
  DataRankSlots slots(5, {.n = 2});
  EXPECT_EQ(slots.n_free(0), 3);
  EXPECT_EQ(slots.n_free(1), 2);
  EXPECT_EQ(slots.Next(1), 1);
  EXPECT_EQ(slots.Take(1), 1);
  EXPECT_EQ(slots.Take(1), 3);
  EXPECT_EQ(slots.n_free(1), 0);
  EXPECT_TRUE(slots.HasFree());
  EXPECT_EQ(slots.Take(0), 0);
  EXPECT_EQ(slots.Take(0), 2);
  EXPECT_EQ(slots.Take(0), 4);
  EXPECT_FALSE(slots.HasFree());
  slots.Return(3);
  EXPECT_EQ(slots.n_free(0), 0);
  EXPECT_EQ(slots.Next(1), 3);
}

TEST(DataRankSlots, FewerSlotsThanRanks) {
  const DataRankSlots slots(1, {.n = 3});
  EXPECT_EQ(slots.n_free(0), 1);
  EXPECT_EQ(slots.n_free(2), 0);
}

TEST(DataRankSlots, TheRankThatHasMostOfTheTextIsFirst) {
  EXPECT_EQ(Order({{.data_rank = 0, .n_shared = 2},
                   {.data_rank = 1, .n_shared = 5, .n_running = 9, .n_tokens = 900},
                   {.data_rank = 2, .n_shared = 5, .soon = true}}),
            (std::vector<int>{1, 2, 0}));
}

TEST(DataRankSlots, OfThoseTheOneWithTheLeastToDo) {
  EXPECT_EQ(Order({{.data_rank = 0, .n_running = 2, .n_tokens = 10},
                   {.data_rank = 1, .n_running = 1, .n_tokens = 800},
                   {.data_rank = 2, .n_running = 1, .n_tokens = 700}}),
            (std::vector<int>{2, 1, 0}));
}

TEST(DataRankSlots, RanksWithoutWorkTakeTurns) {
  DataRankSlots slots(6, {.n = 3});
  std::vector<int> chosen;
  for (int i = 0; i < 6; ++i) {
    std::vector<DataRankOffer> offers;
    for (int rank = 0; rank < 3; ++rank) {
      offers.push_back({.data_rank = rank, .last_chosen = slots.last_chosen(rank)});
    }
    chosen.push_back(Order(offers).front());
    slots.Choose(chosen.back());
  }
  EXPECT_EQ(chosen, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

}  // namespace
}  // namespace fathom::engine
