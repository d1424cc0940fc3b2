#include "distributed/index_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/layer_cache.h"

namespace fathom::distributed {
namespace {

constexpr std::int64_t kTop = 10;

ModelConfig Config(std::int64_t top = kTop, std::int64_t heads = 4) {
  ModelConfig config;
  config.index_topk = top;
  config.index_n_heads = heads;
  return config;
}

ModelShard Share(int rank, int n_ranks, bool divided_rows = false) {
  return {.tensor_rank = rank,
          .n_tensor = n_ranks,
          .decode_context_parallel = divided_rows,
          .least_index_work = 0};
}

struct Positions {
  std::string name;
  std::vector<std::int32_t> all;
};
// n positions from `first`.
void Add(Positions& positions, std::int32_t first, std::int32_t n) {
  for (std::int32_t i = 0; i < n; ++i) {
    positions.all.push_back(first + i);
  }
}

std::vector<Positions> Cases() {
  Positions prompt{"a prompt", {}}, deep{"a single token", {}}, mixed{"some that have all", {}},
      barely{"fewer rows than ranks times lists", {}};
  Add(prompt, 0, 200);
  Add(deep, 999, 1);
  Add(mixed, 7, 3);
  Add(mixed, 300, 5);
  Add(mixed, 0, 40);
  Add(mixed, 801, 1);
  Add(mixed, 12, 1);
  Add(barely, 43, 2);
  return {prompt, deep, mixed, barely};
}

// Scores of which many are equal.
std::vector<float> RandomScores(std::mt19937& random, std::int64_t n) {
  std::vector<float> scores;
  for (std::int64_t i = 0; i < n; ++i) {
    scores.push_back(static_cast<float>(random() % 7) - 3);
  }
  return scores;
}

// Fills the list that BestRows makes of these scores.
void FillList(const std::vector<float>& scores, const CacheShard& share, const RowRange& range,
              std::span<ScoredRow> list) {
  std::vector<ScoredRow> scored;
  for (std::int64_t place = range.first; place < range.end; ++place) {
    const std::int64_t row = share.RowIn(place);
    scored.push_back(ToScoredRow(scores[static_cast<std::size_t>(row)], row));
  }
  std::sort(scored.begin(), scored.end());
  scored.resize(list.size(), kNoScoredRow);
  std::copy(scored.begin(), scored.end(), list.begin());
}

// Returns the choice of one rank for a token.
std::vector<std::int32_t> ChoiceOfOne(const std::vector<float>& scores) {
  std::vector<std::int32_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (std::ssize(rows) > kTop) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
  }
  rows.resize(kTop, -1);
  return rows;
}

// Every row is scored by one rank, all ranks have as many (where rows are divided, to one row of a
// token), and their lists are the choice of one.
void ExpectTheChoiceOfOne(bool divided_rows) {
  const ModelConfig config = Config();
  std::mt19937 random(1);
  for (const Positions& positions : Cases()) {
    const auto t = static_cast<std::int64_t>(positions.all.size());
    std::vector<std::vector<float>> scores;
    std::int64_t n_rows = 0;
    for (const std::int32_t position : positions.all) {
      scores.push_back(RandomScores(random, VisibleRows(position, 4)));
      n_rows += RowsToScore(config, position);
    }
    for (const int n_ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(positions.name + ", ranks: " + std::to_string(n_ranks));
      std::vector<ScoredRow> memory(
          static_cast<std::size_t>(MostIndexLists(t, n_ranks, divided_rows) * kTop));
      const Matrix<ScoredRow> lists = {memory.data(), MostIndexLists(t, n_ranks, divided_rows),
                                       kTop};
      std::set<std::pair<std::int64_t, std::int64_t>> scored;  // tokens and rows
      std::int64_t n_lists = 0;
      for (int rank = 0; rank < n_ranks; ++rank) {
        const ModelShard share = Share(rank, n_ranks, divided_rows);
        IndexPartition cut(config, share, t);
        cut.Partition(positions.all);
        ASSERT_TRUE(cut.is_shared());
        const IndexRange& own = cut.RankRange(rank);
        ASSERT_EQ(std::ssize(cut.own_rows()), own.n_tokens);
        EXPECT_EQ(own.first_list, n_lists);
        n_lists += own.n_tokens;
        ASSERT_LE(n_lists, lists.rows);
        std::int64_t n_own = 0;
        for (std::int64_t i = 0; i < own.n_tokens; ++i) {
          const std::int64_t token = own.first_token + i;
          const RowRange& range = cut.own_rows()[static_cast<std::size_t>(i)];
          for (std::int64_t place = range.first; place < range.end; ++place) {
            const std::int64_t row = share.RowsOfRatio4().RowIn(place);
            EXPECT_TRUE(scored.emplace(token, row).second) << token << " " << row;
          }
          n_own += range.n_rows();
          FillList(scores[static_cast<std::size_t>(token)], share.RowsOfRatio4(), range,
                   lists.RowSpan(own.first_list + i));
        }
        EXPECT_NEAR(static_cast<double>(n_own), static_cast<double>(n_rows) / n_ranks,
                    divided_rows ? static_cast<double>(own.n_tokens) : 1.0);
      }
      EXPECT_EQ(std::ssize(scored), n_rows);
      IndexPartition cut(config, Share(0, n_ranks, divided_rows), t);
      cut.Partition(positions.all);
      std::vector<std::int32_t> chosen(static_cast<std::size_t>(t * kTop), 7);
      const Matrix<std::int32_t> rows = {chosen.data(), t, kTop};
      cut.Choose(lists, rows);
      for (std::int64_t token = 0; token < t; ++token) {
        const auto found = rows.RowSpan(token);
        EXPECT_EQ(std::vector(found.begin(), found.end()),
                  ChoiceOfOne(scores[static_cast<std::size_t>(token)]))
            << token;
      }
    }
  }
}

TEST(IndexPartition, RanksShareTheLine) { ExpectTheChoiceOfOne(false); }
TEST(IndexPartition, RanksDivideTheRows) { ExpectTheChoiceOfOne(true); }

// However little there is to score.
TEST(IndexPartition, DividedRowsAreAlwaysShared) {
  ModelShard share = Share(1, 2, true);
  share.least_index_work = kLeastIndexWork;
  IndexPartition cut(Config(), share, 1);
  cut.Partition(std::vector<std::int32_t>{42});
  EXPECT_FALSE(cut.is_shared());
  cut.Partition(std::vector<std::int32_t>{43});
  EXPECT_TRUE(cut.is_shared());
}

TEST(IndexPartition, NobodyScoresWhereAllRowsFit) {
  const ModelConfig config = Config();
  IndexPartition cut(config, Share(1, 2), 50);
  Positions positions;
  Add(positions, 0, 43);  // the last sees ten rows
  cut.Partition(positions.all);
  EXPECT_FALSE(cut.has_rows());
  EXPECT_FALSE(cut.is_shared());
  Add(positions, 43, 1);
  cut.Partition(positions.all);
  EXPECT_TRUE(cut.has_rows());
  EXPECT_TRUE(cut.is_shared());
  cut.Partition({});
  EXPECT_FALSE(cut.has_rows());
}

// For Flash: prompts are divided as soon as rows are chosen, a single token when its text is long.
TEST(IndexPartition, SharesWhatTakesLongerThanAMessage) {
  const ModelConfig config = Config(512, 64);
  const auto shares = [&](std::int64_t position, std::int64_t n_tokens, int n_ranks) {
    return SharesScoring(config, {.n_tensor = n_ranks}, RowsToScore(config, position) * n_tokens);
  };
  EXPECT_FALSE(shares(2'000, 512, 8));
  EXPECT_TRUE(shares(2'100, 512, 8));
  EXPECT_FALSE(shares(2'100, 512, 1));
  EXPECT_FALSE(shares(16'384, 1, 4));
  EXPECT_FALSE(shares(30'000, 1, 2));
  EXPECT_TRUE(shares(30'000, 1, 4));
  EXPECT_TRUE(shares(65'536, 1, 2));
  EXPECT_FALSE(shares(65'536, 1, 1));
}

}  // namespace
}  // namespace fathom::distributed
