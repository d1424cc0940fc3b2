#include "comm/communicator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "comm/shared_status.h"
#include "tests/testing/ranks.h"

namespace fathom::comm {
namespace {

using testing::RunRanks;

template <class T>
std::span<const std::byte> AsBytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::span<std::byte> AsWritableBytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Adds one part of each rank, in place.
Status SumOverRanks(Communicator& ranks, std::vector<float>& values) {
  return ranks.AllReduceParts({values.data(), 1, std::ssize(values)}, ranks.size(), values);
}

class CommunicatorTest : public ::testing::TestWithParam<int> {
 protected:
  int n_ranks() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorTest, ::testing::Values(1, 2, 3, 4, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(CommunicatorTest, BroadcastsFromEveryRoot) {
  RunRanks(n_ranks(), [](Communicator& ranks) {
    for (int root = 0; root < ranks.size(); ++root) {
      std::vector<int> values(1000, ranks.rank() == root ? 7 + root : -1);
      ASSERT_TRUE(ranks.Broadcast(root, AsWritableBytes(values)).has_value());
      EXPECT_EQ(values, std::vector<int>(1000, 7 + root));
    }
  });
}

TEST_P(CommunicatorTest, GathersInRankOrder) {
  RunRanks(n_ranks(), [](Communicator& ranks) {
    for (const std::size_t n : {0u, 1u, 7u, 100'000u}) {
      const std::vector<int> mine(n, ranks.rank());
      std::vector<int> all(n * static_cast<std::size_t>(ranks.size()), -1);
      ASSERT_TRUE(ranks.AllGather(AsBytes(mine), AsWritableBytes(all)).has_value());
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], static_cast<int>(i / n));
      }
    }
  });
}

TEST_P(CommunicatorTest, AllRanksHearOfAFailureOfOne) {
  for (const int first : {-1, 0, n_ranks() - 1}) {
    RunRanks(n_ranks(), [&](Communicator& ranks) {
      // The last rank fails as well.
      const bool fails = first >= 0 && (ranks.rank() == first || ranks.rank() == n_ranks() - 1);
      const Status mine = fails ? MakeError(ErrorCode::kIo, "file {}", ranks.rank()) : Status();
      const Status shared = ShareStatus(ranks, mine);
      EXPECT_EQ(shared.has_value(), first < 0);
      if (shared) return;
      EXPECT_EQ(shared.error().code, fails ? ErrorCode::kIo : ErrorCode::kUnavailable);
      EXPECT_EQ(shared.error().message, fails ? fmt::format("file {}", ranks.rank())
                                              : fmt::format("rank {}: file {}", first, first));
    });
  }
}

TEST_P(CommunicatorTest, SharesPiecesOfDifferentSizesInPlace) {
  // Two rows of pieces; rank r has 3 r mod 5 numbers of the first, r of the second: also none.
  const auto count = [](int row, int rank) {
    return static_cast<std::size_t>(row == 0 ? 3 * rank % 5 : rank);
  };
  RunRanks(n_ranks(), [&](Communicator& ranks) {
    std::vector<std::vector<int>> numbers;
    std::vector<std::span<std::byte>> pieces;
    for (int i = 0; i < 2 * ranks.size(); ++i) {
      const int rank = i % ranks.size();
      numbers.emplace_back(count(i / ranks.size(), rank), rank == ranks.rank() ? i : -1);
    }
    for (std::vector<int>& piece : numbers) {
      pieces.push_back(AsWritableBytes(piece));
    }
    ASSERT_TRUE(ranks.ShareInPlace(pieces).has_value());
    for (int i = 0; i < 2 * ranks.size(); ++i) {
      EXPECT_EQ(numbers[static_cast<std::size_t>(i)],
                std::vector<int>(count(i / ranks.size(), i % ranks.size()), i));
    }
  });
}

TEST_P(CommunicatorTest, ExchangesDifferentSizesAmongAll) {
  // Rank a gives rank b (3 a + b) mod 5 numbers: also none.
  const auto count = [](int a, int b) { return static_cast<std::size_t>((3 * a + b) % 5); };
  RunRanks(n_ranks(), [&](Communicator& ranks) {
    std::vector<std::vector<int>> out, in;
    std::vector<std::span<const std::byte>> outgoing;
    std::vector<std::span<std::byte>> incoming;
    for (int other = 0; other < ranks.size(); ++other) {
      out.emplace_back(count(ranks.rank(), other), 100 * ranks.rank() + other);
      in.emplace_back(count(other, ranks.rank()), -1);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      outgoing.push_back(AsBytes(out[i]));
      incoming.push_back(AsWritableBytes(in[i]));
    }
    ASSERT_TRUE(ranks.AllToAll(outgoing, incoming).has_value());
    for (int other = 0; other < ranks.size(); ++other) {
      EXPECT_EQ(in[static_cast<std::size_t>(other)],
                std::vector<int>(count(other, ranks.rank()), 100 * other + ranks.rank()));
    }
  });
}

// Parts that round: any other order of the sum would show.
std::vector<float> RandomParts(std::int64_t n_parts, std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(n_parts * n));
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 20));
  }
  return values;
}

TEST_P(CommunicatorTest, SumsPartsAsOneRankWould) {
  const int n_ranks = this->n_ranks();
  for (const std::int64_t n : {0, 1, 3, 8, 1001}) {
    for (const std::int64_t parts_per_rank : {1, 2, 4}) {
      const std::vector<float> parts = RandomParts(n_ranks * parts_per_rank, n, 5);
      std::vector<float> expected = parts;
      SumByHalves({expected.data(), n_ranks * parts_per_rank, n});
      expected.resize(static_cast<std::size_t>(n));
      RunRanks(n_ranks, [&](Communicator& ranks) {
        std::vector<float> sum(static_cast<std::size_t>(n), -1);
        const Matrix<const float> mine = {parts.data() + ranks.rank() * parts_per_rank * n,
                                          parts_per_rank, n};
        ASSERT_TRUE(ranks.AllReduceParts(mine, n_ranks * parts_per_rank, sum).has_value());
        EXPECT_EQ(sum, expected);
      });
    }
  }
}

TEST_P(CommunicatorTest, SumsFewerPartsThanRanks) {
  std::vector<float> parts = {-0.0f, 1, -0.0f, 2};  // two parts of two numbers
  RunRanks(n_ranks(), [&](Communicator& ranks) {
    for (const std::int64_t n_parts : {1, 2}) {
      if (ranks.size() % n_parts != 0) {
        continue;
      }
      std::vector<float> sum(2, 7);
      const Piece mine = DivideParts(n_parts, ranks.rank(), ranks.size());
      const Matrix<const float> rows = {parts.data() + 2 * mine.first, mine.count, 2};
      ASSERT_TRUE(ranks.AllReduceParts(rows, n_parts, sum).has_value());
      EXPECT_TRUE(sum[0] == 0 && std::signbit(sum[0]));  // nothing is added to it
      EXPECT_EQ(sum[1], n_parts == 1 ? 1 : 3);
    }
  });
}

TEST(SumByHalvesTest, AddsInTheDocumentedOrder) {
  std::vector<float> terms = {1e8f, 1, -1e8f, 3, 5};
  SumByHalves({terms.data(), 5, 1});
  const float a = 1e8f + 3, b = 1.0f + 5, c = -1e8f;  // 5 -> 3
  EXPECT_EQ(terms[0], (a + c) + b);                   // 3 -> 2 -> 1
}

TEST_P(CommunicatorTest, AnotherOrderWouldBeSeen) {
  const std::vector<float> parts = RandomParts(8, 1001, 5);
  std::vector<float> by_halves = parts;
  SumByHalves({by_halves.data(), 8, 1001});
  std::vector<float> one_by_one(parts.begin(), parts.begin() + 1001);
  for (std::size_t i = 1001; i < parts.size(); ++i) {
    one_by_one[i % 1001] += parts[i];
  }
  by_halves.resize(1001);
  EXPECT_NE(by_halves, one_by_one);
}

TEST_P(CommunicatorTest, SplitsByColorAndKey) {
  RunRanks(n_ranks(), [](Communicator& ranks) {
    const int color = ranks.rank() % 2;
    // Backwards.
    Result<std::unique_ptr<Communicator>> group = ranks.Split(color, -ranks.rank());
    ASSERT_TRUE(group.has_value());
    std::vector<int> members(static_cast<std::size_t>((*group)->size()));
    const std::vector<int> mine = {ranks.rank()};
    ASSERT_TRUE((*group)->AllGather(AsBytes(mine), AsWritableBytes(members)).has_value());
    EXPECT_EQ(members[static_cast<std::size_t>((*group)->rank())], ranks.rank());
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(members[i] % 2, color);
      EXPECT_TRUE(i == 0 || members[i] < members[i - 1]);
    }
    // Both at once, and a split of a split.
    Result<std::unique_ptr<Communicator>> inner = (*group)->Split(0, 0);
    ASSERT_TRUE(inner.has_value());
    std::vector<float> one = {1}, two = {1};
    ASSERT_TRUE(SumOverRanks(**inner, one).has_value());
    ASSERT_TRUE(SumOverRanks(ranks, two).has_value());
    EXPECT_EQ(one[0], static_cast<float>((*group)->size()));
    EXPECT_EQ(two[0], static_cast<float>(ranks.size()));
  });
}

TEST(CommunicatorOrderTest, KeepsWhatComesBeforeItIsWaitedFor) {
  RunRanks(2, [](Communicator& ranks) {
    Result<std::unique_ptr<Communicator>> other = ranks.Split(0, 0);
    ASSERT_TRUE(other.has_value());
    std::vector<int> first(70'000, 1), second(3, 2), third(5, 3);
    if (ranks.rank() == 0) {
      ASSERT_TRUE((*other)->Send(1, AsBytes(first)).has_value());
      ASSERT_TRUE((*other)->Send(1, AsBytes(second)).has_value());
      ASSERT_TRUE(ranks.Send(1, AsBytes(third)).has_value());
      return;
    }
    std::vector<int> a(70'000), b(3), c(5);
    ASSERT_TRUE(ranks.Receive(0, AsWritableBytes(c)).has_value());
    ASSERT_TRUE((*other)->Receive(0, AsWritableBytes(a)).has_value());
    ASSERT_TRUE((*other)->Receive(0, AsWritableBytes(b)).has_value());
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, second);
    EXPECT_EQ(c, third);
  });
}

TEST(CommunicatorOrderTest, TellsWhatHasArrivedWhileOthersHaveNot) {
  RunRanks(3, [](Communicator& ranks) {
    const std::vector<int> mine(1000, ranks.rank());
    if (ranks.rank() == 2) {
      // Only when rank 0 has said that it has the other's.
      std::vector<int> go(1);
      ASSERT_TRUE(ranks.Receive(0, AsWritableBytes(go)).has_value());
    }
    if (ranks.rank() != 0) {
      ASSERT_TRUE(ranks.Send(0, AsBytes(mine)).has_value());
      return;
    }
    std::vector<int> one(1000), two(1000);
    const std::array incoming = {Incoming{2, AsWritableBytes(two)},
                                 Incoming{1, AsWritableBytes(one)}};
    Result<std::unique_ptr<Exchange>> exchange = ranks.Start({}, incoming);
    ASSERT_TRUE(exchange.has_value());
    ASSERT_TRUE((*exchange)->WaitForAny().has_value());
    EXPECT_TRUE((*exchange)->HasArrived(1));
    EXPECT_FALSE((*exchange)->HasArrived(0));
    EXPECT_EQ(one, std::vector<int>(1000, 1));
    ASSERT_TRUE(ranks.Send(2, AsBytes(std::vector<int>{1})).has_value());
    ASSERT_TRUE((*exchange)->Wait().has_value());
    EXPECT_EQ(two, std::vector<int>(1000, 2));
  });
}

TEST(CommunicatorOrderTest, CountsPayload) {
  RunRanks(2, [](Communicator& ranks) {
    const std::vector<int> mine(10);
    std::vector<int> all(20);
    ASSERT_TRUE(ranks.AllGather(AsBytes(mine), AsWritableBytes(all)).has_value());
    EXPECT_EQ(ranks.traffic().n_bytes, 40);
    EXPECT_EQ(ranks.traffic().n_messages, 1);
  });
}

TEST(CommunicatorFailureTest, NamesTheRankThatHasEnded) {
  RunRanks(3, [](Communicator& ranks) {
    if (ranks.rank() == 1) {
      return;
    }
    std::vector<float> values(100);
    const Status status = SumOverRanks(ranks, values);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(status.error().message.find("rank"), std::string::npos);
    // And from now on nothing else.
    EXPECT_EQ(ranks.Barrier().error().message, status.error().message);
  });
}

TEST(CommunicatorFailureTest, RefusesAMessageOfAnotherSize) {
  RunRanks(2, [](Communicator& ranks) {
    std::vector<int> values(ranks.rank() == 0 ? 10u : 11u);
    if (ranks.rank() == 0) {
      ASSERT_TRUE(ranks.Send(1, AsBytes(values)).has_value());
      return;
    }
    const Status status = ranks.Receive(0, AsWritableBytes(values));
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("rank 0 sent a message of 40 bytes where 44"),
              std::string::npos)
        << status.error().message;
  });
}

TEST(CommunicatorFailureTest, AnAlarmEndsEveryWait) {
  AbortFlag abort_flag;
  RunRanks(
      3,
      [&](Communicator& ranks) {
        if (ranks.rank() == 2) {
          // Computes, and sends nothing, until the others have given up.
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          EXPECT_TRUE(abort_flag.Raise({ErrorCode::kUnavailable, "rank 2 does not answer"}));
          EXPECT_FALSE(abort_flag.Raise({ErrorCode::kUnavailable, "something else"}));
        }
        const Status status = ranks.rank() == 2 ? abort_flag.Check() : ranks.Barrier();
        ASSERT_FALSE(status.has_value());
        EXPECT_EQ(status.error().message, "rank 2 does not answer");
      },
      abort_flag);
}

}  // namespace
}  // namespace fathom::comm
