#include "experts/exchange/expert_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::experts {
namespace {

using testing::Owned;
using testing::Random;

constexpr std::int64_t kOrderedExperts = 256;
constexpr std::int64_t kPerToken = 6;
constexpr int kRanks = 4;

struct Choices {
  explicit Choices(std::int64_t t) : ids(t, kPerToken), homes(t, kPerToken) {
    Random random(3);
    for (std::int64_t row = 0; row < t; ++row) {
      std::set<std::int32_t> chosen;
      while (std::ssize(chosen) < kPerToken) {
        chosen.insert(random.Below(kOrderedExperts));
      }
      std::copy(chosen.begin(), chosen.end(), ids.view().Row(row));
    }
    std::transform(ids.data.begin(), ids.data.end(), homes.data.begin(),
                   [](std::int32_t id) { return id * kRanks / static_cast<int>(kOrderedExperts); });
    tokens.resize(static_cast<std::size_t>(t));
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  Owned<std::int32_t> ids;
  Owned<std::int32_t> homes;
  std::vector<std::int64_t> tokens;
};

TEST(ExpertOrderTest, ChunksGrowAsTheRootOfTheWork) {
  EXPECT_EQ(ExpertChunks(0, 6, 4), 1);
  EXPECT_EQ(ExpertChunks(1, 6, 4), 1);
  EXPECT_EQ(ExpertChunks(16, 6, 4), 4);
  EXPECT_EQ(ExpertChunks(64, 6, 4), 9);
  EXPECT_EQ(ExpertChunks(512, 6, 4), kMaxExpertChunks);
}

// How many experts of a rank are in each chunk.
std::vector<int> Sizes(const ExpertOrder& order, int rank) {
  std::vector<int> sizes(static_cast<std::size_t>(order.n_chunks()));
  for (int e = rank * 64; e < rank * 64 + 64; ++e) {
    ++sizes.at(static_cast<std::size_t>(order.Chunk(e)));
  }
  return sizes;
}

TEST(ExpertOrderTest, ById) {
  ExpertOrder order(kOrderedExperts);
  order.ById(1);
  EXPECT_EQ(Sizes(order, 2), std::vector{64});
  order.ById(4);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<int> sizes = Sizes(order, rank);
    for (int chunk = 0; chunk < 4; ++chunk) {
      EXPECT_NEAR(sizes[static_cast<std::size_t>(chunk)], 6.4 * (4 - chunk), 2);
    }
  }
}

// The work of each rank falls from chunk to chunk, and most tokens are complete before the last.
TEST(ExpertOrderTest, ByFirstUse) {
  const auto expect = [](std::int64_t t, int n_chunks, double complete) {
    Choices choices(t);
    ExpertOrder order(kOrderedExperts);
    order.ByFirstUse(choices.ids.view(), choices.homes.view(), choices.tokens, kRanks, n_chunks);
    std::int64_t largest = 0;
    std::vector<std::vector<std::int64_t>> work(
        kRanks, std::vector<std::int64_t>(static_cast<std::size_t>(n_chunks)));
    for (std::int32_t e = 0; e < kOrderedExperts; ++e) {
      if (const auto n = std::count(choices.ids.data.begin(), choices.ids.data.end(), e); n > 0) {
        work[static_cast<std::size_t>(e / 64)][static_cast<std::size_t>(order.Chunk(e))] +=
            std::max<std::int64_t>(n, 2);
        largest = std::max<std::int64_t>(largest, std::max<std::int64_t>(n, 2));
      }
    }
    for (const std::vector<std::int64_t>& of_rank : work) {
      const auto total = std::accumulate(of_rank.begin(), of_rank.end(), 0.0);
      for (int chunk = 0; chunk < n_chunks; ++chunk) {
        const double part = 2.0 * (n_chunks - chunk) / (n_chunks * (n_chunks + 1));
        // At each end, half an expert may be on the other side.
        EXPECT_NEAR(static_cast<double>(of_rank[static_cast<std::size_t>(chunk)]), total * part,
                    static_cast<double>(largest));
      }
    }
    std::int64_t n_complete = 0;
    for (std::int64_t token = 0; token < t; ++token) {
      const auto ids = choices.ids.view().RowSpan(token);
      n_complete += std::all_of(ids.begin(), ids.end(),
                                [&](std::int32_t id) { return order.Chunk(id) < n_chunks - 1; });
    }
    EXPECT_GE(static_cast<double>(n_complete), complete * static_cast<double>(t)) << t;
  };
  expect(16, 4, 0.75);
  expect(64, 9, 0.85);
  expect(512, 16, 0.9);
}

TEST(ExpertOrderTest, FillingTokensAndSingleExpertsHaveAPlace) {
  Choices choices(3);
  std::fill_n(choices.ids.data.begin(), 17, kRemoteExpert);
  ExpertOrder order(kOrderedExperts);
  order.ByFirstUse(choices.ids.view(), choices.homes.view(), choices.tokens, kRanks, 3);
  EXPECT_LT(order.Chunk(choices.ids.data[17]), 3);
  order.ByFirstUse(choices.ids.view(), choices.homes.view(), {}, kRanks, 1);
  EXPECT_EQ(order.n_chunks(), 1);
}

}  // namespace
}  // namespace fathom::experts
