// Experts in pieces of any size are whole when they have arrived, and no piece is larger than
// allowed.
#include "experts/balance/expert_shipment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/testing/ranks.h"

namespace fathom::experts {
namespace {

constexpr std::int64_t kShippedExperts = 3;

// An expert without bytes: FP8 with scales and FP4, of sizes that need padding.
ExpertWeights Shape() {
  const Weight up = {.format = WeightFormat::kFp8, .n = 130, .k = 128};
  const Weight down = {.format = WeightFormat::kFp4, .n = 65, .k = 96};
  return {up, down, up};
}

// Its bytes on a rank that has it: others for each expert.
std::vector<std::byte> BytesOfExpert(std::int32_t expert) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(SizeInBytes(Shape())));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + i / 251 + static_cast<std::size_t>(expert)) % 256);
  }
  return bytes;
}

// The weights of one of three ranks: rank 0 sends expert 0 to rank 1, then 1 to rank 2 while 2
// comes from rank 1.
struct Rank {
  explicit Rank(Communicator& ranks) : shipment(*ranks.Split(0, ranks.rank())) {
    const std::vector<std::vector<ExpertTransfer>> transfers = {{{0, 0, 1}},
                                                                {{1, 0, 2}, {2, 1, 0}}};
    for (std::int32_t e = 0; e < kShippedExperts; ++e) {
      here.push_back(BytesOfExpert(e));
      arrived.emplace_back(here.back().size());
    }
    for (const std::vector<ExpertTransfer>& round : transfers) {
      std::vector<ExpertMove>& parcels = rounds.emplace_back();
      for (const ExpertTransfer& transfer : round) {
        const auto e = static_cast<std::size_t>(transfer.expert);
        ExpertMove parcel = {transfer, Shape(), {}};
        if (transfer.from == ranks.rank()) {
          parcel.weights = BindTo(Shape(), here[e]);
        }
        if (transfer.to == ranks.rank()) {
          parcel.memory = arrived[e];
          awaited.push_back(transfer.expert);
        }
        parcels.push_back(parcel);
      }
    }
  }

  void ExpectArrived() const {
    for (const std::int32_t expert : awaited) {
      const auto e = static_cast<std::size_t>(expert);
      const auto expected = DataPieces(BindTo(Shape(), here[e]));
      const auto found = DataPieces(BindTo(Shape(), arrived[e]));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(expected[i], found[i])) << "piece " << i;
      }
    }
  }

  ExpertShipment shipment;
  ExpertMoveRounds rounds;
  std::vector<std::vector<std::byte>> here, arrived;  // [experts]
  std::vector<std::int32_t> awaited;
};

TEST(ExpertShipmentTest, PiecesOfAnySizeMakeWholeExperts) {
  const std::int64_t size = SizeInBytes(Shape());
  for (const std::int64_t most : {std::int64_t{97}, std::int64_t{4096}, size - 1, size, 3 * size}) {
    testing::RunRanks(3, [&](Communicator& ranks) {
      Rank rank(ranks);
      const std::int64_t n_blocks = BlocksToCarry(rank.rounds, most);
      EXPECT_EQ(n_blocks, 2 * ((size + most - 1) / most));
      rank.shipment.Load(rank.rounds, most);
      for (std::int64_t block = 0; block < n_blocks; ++block) {
        EXPECT_FALSE(rank.shipment.is_done());
        const std::int64_t sent_before = ranks.traffic().n_bytes;
        ASSERT_TRUE(rank.shipment.Start());
        ASSERT_TRUE(rank.shipment.Poll());
        ASSERT_TRUE(rank.shipment.Wait());
        EXPECT_LE(ranks.traffic().n_bytes - sent_before, most);
      }
      EXPECT_TRUE(rank.shipment.is_done());
      rank.ExpectArrived();
      const std::int64_t sent = ranks.traffic().n_bytes;
      ASSERT_TRUE(rank.shipment.Start());  // nothing is left
      ASSERT_TRUE(rank.shipment.Wait());
      EXPECT_EQ(ranks.traffic().n_bytes, sent);
    });
  }
}

TEST(ExpertShipmentTest, WhatIsLeftTravelsAtOnce) {
  testing::RunRanks(3, [&](Communicator& ranks) {
    Rank rank(ranks);
    rank.shipment.Load(rank.rounds, 1000);
    ASSERT_TRUE(rank.shipment.Start());  // and the block ended by an error: nobody waited
    ASSERT_TRUE(rank.shipment.Finish());
    EXPECT_TRUE(rank.shipment.is_done());
    EXPECT_GT(rank.shipment.seconds(), 0);
    rank.ExpectArrived();
  });
}

TEST(ExpertShipmentTest, ARankThatIsGoneIsAnError) {
  testing::RunRanks(3, [&](Communicator& ranks) {
    Rank rank(ranks);
    rank.shipment.Load(rank.rounds, 1000);
    if (ranks.rank() != 0) {
      return;
    }
    Status status;
    while (status && !rank.shipment.is_done()) {
      status = rank.shipment.Start();
      if (status) status = rank.shipment.Wait();
    }
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("has closed its connection"), std::string::npos);
  });
}

}  // namespace
}  // namespace fathom::experts
