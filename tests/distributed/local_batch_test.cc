#include "distributed/local_batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom {
namespace {

TEST(LocalBatchTest, ARankHasTheRowsOfItsSequences) {
  Batch whole;
  const std::vector<Token> tokens = {10, 11, 12, 13, 14, 15};
  const std::span<const Token> all = tokens;
  whole.Add(3, 7, all.subspan(0, 2));   // rank 0 of 3
  whole.Add(1, 0, all.subspan(2, 3));   // rank 1
  whole.Add(0, 20, all.subspan(5, 1));  // rank 0
  LocalBatch own(6, 4);
  own.Assign(whole.View(), {.data_rank = 0, .n_data = 3});
  const BatchView view = own.View();
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
    own.Assign(whole.View(), {.data_rank = rank, .n_data = 3});
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(own.Owner(static_cast<std::int64_t>(i)), ranks[i]);
      EXPECT_EQ(own.local_rows()[i], ranks[i] == rank ? rows[i] : -1);
    }
  }
  own.Assign(whole.View(), {.data_rank = 2, .n_data = 3});
  EXPECT_EQ(own.View().n_tokens(), 0);
}

}  // namespace
}  // namespace fathom
