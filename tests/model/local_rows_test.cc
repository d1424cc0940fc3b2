#include "model/local_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom::model {
namespace {

TEST(LocalRowsTest, ARankHasTheRowsOfItsSequences) {
  Batch whole;
  const std::vector<Token> tokens = {10, 11, 12, 13, 14, 15};
  const std::span<const Token> all = tokens;
  whole.Add(3, 7, all.subspan(0, 2));   // rank 0 of 3
  whole.Add(1, 0, all.subspan(2, 3));   // rank 1
  whole.Add(0, 20, all.subspan(5, 1));  // rank 0
  LocalRows own;
  own.Reserve(6, 4);
  own.Assign(whole.View(), {.rank = 0, .n = 3});
  const BatchView view = own.batch();
  EXPECT_EQ(std::vector<Token>(view.tokens.begin(), view.tokens.end()),
            (std::vector<Token>{10, 11, 15}));
  EXPECT_EQ(view.segments.size(), 2u);
  EXPECT_EQ(view.positions[2], 20);
  std::vector<std::int64_t> tokens_of_rank(3);
  CountTokens(whole.View(), {.rank = 0, .n = 3}, tokens_of_rank);
  EXPECT_EQ(tokens_of_rank, (std::vector<std::int64_t>{3, 3, 0}));
  const std::vector<int> ranks = {0, 0, 1, 1, 1, 0};
  const std::vector<std::int64_t> rows = {0, 1, 0, 1, 2, 2};
  for (int rank = 0; rank < 3; ++rank) {
    own.Assign(whole.View(), {.rank = rank, .n = 3});
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(own.LocalRow(static_cast<std::int64_t>(i)), ranks[i] == rank ? rows[i] : -1);
    }
  }
  own.Assign(whole.View(), {.rank = 2, .n = 3});
  EXPECT_EQ(own.batch().n_tokens(), 0);
}

TEST(LocalRowsTest, OneRankHasAllRows) {
  Batch whole;
  const std::vector<Token> tokens = {10, 11};
  whole.Add(3, 7, tokens);
  LocalRows own;
  own.Assign(whole.View(), {});
  EXPECT_EQ(own.batch().tokens.data(), whole.View().tokens.data());
  EXPECT_EQ(own.batch().segments.front().sequence, 3);
  EXPECT_EQ(own.LocalRow(1), 1);
}

}  // namespace
}  // namespace fathom::model
