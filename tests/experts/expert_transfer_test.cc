#include "experts/balance/expert_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace fathom::experts {
namespace {

ReplicaMap TransferMap(const std::vector<std::int32_t>& physical_to_logical, std::int64_t n_logical,
                       std::int64_t n_ranks) {
  return {
      0,
      {.n_logical = n_logical, .n_physical = std::ssize(physical_to_logical), .n_ranks = n_ranks},
      MakePlacement(physical_to_logical, n_logical)};
}

TEST(ExpertTransferTest, WhatIsThereIsNotSentAndSendersTakeTurns) {
  // Ranks 0 and 1 have experts 0 and 1, ranks 2 and 3 have 2 and 3.
  const ReplicaMap from = TransferMap({0, 1, 0, 1, 2, 3, 2, 3}, 4, 4);
  const ReplicaMap to = TransferMap({0, 1, 2, 3, 0, 1, 2, 3}, 4, 4);
  const std::vector<std::vector<ExpertTransfer>> rounds = PlanTransfers(from, to);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0], (std::vector<ExpertTransfer>{{2, 2, 1}, {0, 0, 2}}));
  EXPECT_EQ(rounds[1], (std::vector<ExpertTransfer>{{3, 3, 1}, {1, 1, 2}}));
  EXPECT_TRUE(PlanTransfers(from, from).empty());
}

TEST(ExpertTransferTest, ARankSendsOneExpertAtATime) {
  // Rank 0 alone has experts 0 and 1; rank 3, which lacks both, is sent another meanwhile.
  const ReplicaMap from = TransferMap({0, 1, 2, 3, 2, 3, 4, 5}, 6, 4);
  const ReplicaMap to = TransferMap({0, 1, 0, 2, 0, 3, 2, 4}, 6, 4);
  EXPECT_EQ(PlanTransfers(from, to),
            (std::vector<std::vector<ExpertTransfer>>{{{0, 0, 1}, {2, 1, 3}}, {{0, 0, 2}}}));
}

TEST(ExpertTransferTest, EveryRankGetsWhatItLacksFromOneThatHasIt) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t n_logical = 8, n_ranks = 4;
    const auto place = [&] {
      std::vector<std::int32_t> physical(16);
      for (std::size_t p = 0; p < physical.size(); ++p) {
        physical[p] = static_cast<std::int32_t>(p < 8 ? p : random() % 8);
      }
      std::shuffle(physical.begin(), physical.end(), random);
      return TransferMap(physical, n_logical, n_ranks);
    };
    const ReplicaMap from = place(), to = place();
    std::vector<std::set<std::int32_t>> got(4);
    for (const std::vector<ExpertTransfer>& round : PlanTransfers(from, to)) {
      std::set<int> senders, receivers;
      for (const ExpertTransfer& transfer : round) {
        EXPECT_TRUE(from.IsOn(transfer.from, transfer.expert));
        EXPECT_FALSE(from.IsOn(transfer.to, transfer.expert));
        EXPECT_TRUE(senders.insert(transfer.from).second);
        EXPECT_TRUE(receivers.insert(transfer.to).second);
        EXPECT_TRUE(got[static_cast<std::size_t>(transfer.to)].insert(transfer.expert).second);
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      for (std::int32_t e = 0; e < n_logical; ++e) {
        EXPECT_EQ(got[static_cast<std::size_t>(rank)].contains(e),
                  to.IsOn(rank, e) && !from.IsOn(rank, e));
      }
    }
  }
}

TEST(ExpertTransferTest, AnExpertLiesInItsMemoryWhole) {
  for (const ScaleFormat scales : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
    const Weight up = {.format = WeightFormat::kFp8, .scale_format = scales, .n = 384, .k = 256};
    const Weight down = {.format = WeightFormat::kFp4, .n = 256, .k = 384};
    const ExpertWeights expert = {up, down, up};
    const std::int64_t up_scales = scales == ScaleFormat::kE8m0 ? 6 : 24;
    EXPECT_EQ(SizeInBytes(expert), 2 * (64 + 384 * 256) + 256 * 12 + 256 * 192);
    std::vector<std::byte> memory(static_cast<std::size_t>(SizeInBytes(expert)));
    const ExpertWeights bound = BindTo(expert, memory);
    const auto pieces = DataPieces(bound);
    const std::vector<std::int64_t> sizes = {up_scales, 384 * 256, 256 * 12,
                                             256 * 192, up_scales, 384 * 256};
    const std::byte* end = memory.data();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(std::ssize(pieces[i]), sizes[i]);
      EXPECT_GE(pieces[i].data(), end);
      EXPECT_EQ((pieces[i].data() - memory.data()) % 64, 0);
      end = pieces[i].data() + pieces[i].size();
    }
    EXPECT_LE(end, memory.data() + memory.size());
  }
}

}  // namespace
}  // namespace fathom::experts
