#include "distributed/row_gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/batch.h"

namespace fathom::distributed {
namespace {

constexpr std::int64_t kGatheredTop = 10;
constexpr std::int64_t kContext = 1000;

ModelConfig GatherConfig() {
  ModelConfig config;
  config.index_topk = kGatheredTop;
  return config;
}

ModelShard GatherShare(int rank, int n_ranks, std::int64_t most_rows) {
  return {.tensor_rank = rank,
          .n_tensor = n_ranks,
          .decode_context_parallel = true,
          .most_gathered_rows = most_rows};
}

// Prompts and single tokens, of which some see no row yet; each token's rows, in any order.
struct Step {
  Batch batch;
  std::vector<std::int32_t> rows;

  explicit Step(unsigned seed) {
    batch.Add(4, 0, std::vector<Token>(30, 1));
    batch.Add(1, 900, std::vector<Token>(25, 1));
    batch.Add(0, 2, std::vector<Token>(1, 1));
    batch.Add(2, 901, std::vector<Token>(1, 1));
    std::mt19937 random(seed);
    for (const std::int32_t position : batch.View().positions) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(VisibleRows(position, 4)));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
      std::shuffle(all.begin(), all.end(), random);
      all.resize(kGatheredTop, -1);
      rows.insert(rows.end(), all.begin(), all.end());
    }
  }
  std::int64_t n() const { return std::ssize(rows) / kGatheredTop; }
};

using Row = std::pair<std::int32_t, std::int32_t>;  // of a sequence

TEST(RowGather, EveryTokenFindsItsRowsAndNoneTravelsTwice) {
  const Step step(1);
  const BatchView batch = step.batch.View();
  for (const int n_ranks : {2, 4, 8}) {
    for (const std::int64_t most_rows : {0, 23, 10'000}) {
      SCOPED_TRACE(std::to_string(n_ranks) + " ranks, " + std::to_string(most_rows) + " rows");
      std::vector<RowGather> gathers;
      for (int rank = 0; rank < n_ranks; ++rank) {
        gathers.emplace_back(GatherConfig(), GatherShare(rank, n_ranks, most_rows), step.n(),
                             kContext);
      }
      int n_turns = 0;
      for (std::int64_t first = 0, n = 0; first < step.n(); first += n, ++n_turns) {
        // The buffer, as every rank fills its part.
        std::vector<Row> buffer;
        std::vector<std::int32_t> found;
        for (int rank = 0; rank < n_ranks; ++rank) {
          RowGather& gather = gathers[static_cast<std::size_t>(rank)];
          found = step.rows;
          n = gather.Gather(batch, {found.data(), step.n(), kGatheredTop}, first);
          ASSERT_EQ(gather.FirstRow(rank), std::ssize(buffer));
          for (const SequenceRow& row : gather.own_rows()) {
            EXPECT_EQ(row.row % n_ranks, rank);
            buffer.emplace_back(row.sequence, row.row);
          }
          ASSERT_EQ(gather.FirstRow(rank + 1), std::ssize(buffer));
        }
        EXPECT_LE(std::ssize(buffer), std::max<std::int64_t>(most_rows, kGatheredTop));
        EXPECT_EQ(std::set(buffer.begin(), buffer.end()).size(), buffer.size());
        for (std::int64_t i = 0; i < step.n() * kGatheredTop; ++i) {
          const auto at = static_cast<std::size_t>(i);
          const bool is_taken = i >= first * kGatheredTop && i < (first + n) * kGatheredTop;
          if (!is_taken || step.rows[at] < 0) {
            EXPECT_EQ(found[at], step.rows[at]);
            continue;
          }
          ASSERT_LT(found[at], std::ssize(buffer));
          EXPECT_EQ(buffer[static_cast<std::size_t>(found[at])],
                    Row(batch.FindSegment(i / kGatheredTop).sequence, step.rows[at]));
        }
      }
      EXPECT_EQ(n_turns == 1, most_rows == 10'000);
    }
  }
}

TEST(RowGather, ARankThatCachesAllRowsNeedsNone) {
  const RowGather gather(GatherConfig(), {.n_tensor = 2}, 64, kContext);
  EXPECT_FALSE(gather.is_needed());
  EXPECT_EQ(GatheredRows(GatherConfig(), {.n_tensor = 2}, 64), 0);
  EXPECT_EQ(GatheredRows(GatherConfig(), GatherShare(0, 2, 0), 64), kGatheredTop);
  EXPECT_EQ(GatheredRows(GatherConfig(), GatherShare(0, 2, 100), 64), 100);
  EXPECT_EQ(GatheredRows(GatherConfig(), GatherShare(0, 2, 100), 3), 3 * kGatheredTop);
}

}  // namespace
}  // namespace fathom::distributed
