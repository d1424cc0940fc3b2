// The rounds of drafts: who drafts in which round, behind which rows, and where they end.
#include "model/draft/draft_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fathom::model {
namespace {

using ::testing::ElementsAre;

// A head whose logits name the row they are of.
class Head {
 public:
  DraftRounds::Head Passes() {
    return {.choose = [this](std::span<const std::int32_t> rows,
                             const DescribeRows& describe) -> Result<ChosenTokens> {
              EXPECT_FALSE(describe);
              values_.assign(rows.begin(), rows.end());
              calls.push_back("logits of " + std::to_string(rows.size()));
              return ChosenTokens{.logits = {values_.data(), std::ssize(values_), 1}};
            },
            .forward =
                [this](const Batch& next, std::span<const std::int32_t> stream_rows) {
                  std::string call = "forward";
                  for (std::int64_t i = 0; i < next.n_tokens(); ++i) {
                    const TokenPosition at = RowPosition(next.View(), i);
                    call += " " + std::to_string(at.sequence) + ":" + std::to_string(at.position) +
                            "=" + std::to_string(next.View().tokens[static_cast<std::size_t>(i)]) +
                            "<" + std::to_string(stream_rows[static_cast<std::size_t>(i)]);
                  }
                  calls.push_back(call);
                  return status;
                }};
  }

  std::vector<std::string> calls;
  Status status;

 private:
  std::vector<float> values_;
};

// Rows of a commit: two of sequence 3, one of sequence 1, one of sequence 0.
const std::vector<TokenPosition> kRows = {{3, 10}, {3, 11}, {1, 20}, {0, 30}};

TEST(DraftRounds, EachRequestGetsAsManyDraftsAsItAskedFor) {
  Head head;
  DraftRounds rounds(8, 4, 8);
  std::vector<std::string> choices;
  const auto choose = [&](const DraftLogits& found, std::span<Token> tokens) {
    std::string choice = found.every_rank_needs_tokens ? "all" : "one";
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      choice += " " + std::to_string(found.requests[i]) + "<" +
                std::to_string(static_cast<int>(found.logits.RowSpan(static_cast<int>(i))[0]));
      tokens[i] = 100 + found.requests[i];
    }
    choices.push_back(choice);
    return Status();
  };
  const std::vector<DraftRequest> requests = {{1, 1}, {2, 3}, {0, 0}, {3, 2}};
  ASSERT_TRUE(rounds.Run(requests, kRows, head.Passes(), {}, choose));
  EXPECT_THAT(choices, ElementsAre("all 0<1 1<2 3<3", "all 1<0 3<1", "one 1<0"));
  EXPECT_THAT(head.calls, ElementsAre("logits of 3", "forward 1:21=101<2 0:31=103<3", "logits of 2",
                                      "forward 1:22=101<0", "logits of 1"));
}

TEST(DraftRounds, LogitsComeInAsManyCallsAsTheirRowsNeed) {
  Head head;
  DraftRounds rounds(8, 4, 2);
  std::vector<bool> needed;
  const auto choose = [&](const DraftLogits& found, std::span<Token> tokens) {
    std::ranges::fill(tokens, 7);
    needed.push_back(found.every_rank_needs_tokens);
    return Status();
  };
  const std::vector<DraftRequest> requests = {{0, 1}, {1, 1}, {3, 2}};
  ASSERT_TRUE(rounds.Run(requests, kRows, head.Passes(), {}, choose));
  EXPECT_THAT(needed, ElementsAre(false, true, false));
  EXPECT_THAT(head.calls,
              ElementsAre("logits of 2", "logits of 1", "forward 0:31=7<3", "logits of 1"));
}

TEST(DraftRounds, EndForARequestWithoutAToken) {
  Head head;
  DraftRounds rounds(8, 4, 8);
  const auto choose = [&](const DraftLogits& found, std::span<Token> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = found.requests[i] == 0 ? kNoDraft : 5;
    }
    return Status();
  };
  const std::vector<DraftRequest> requests = {{2, 2}, {3, 2}};
  ASSERT_TRUE(rounds.Run(requests, kRows, head.Passes(), {}, choose));
  EXPECT_THAT(head.calls, ElementsAre("logits of 2", "forward 0:31=5<3", "logits of 1"));
}

TEST(DraftRounds, EndWithTheFirstError) {
  Head head;
  DraftRounds rounds(8, 4, 8);
  const auto fail = [](const DraftLogits& /*found*/, std::span<Token> /*tokens*/) -> Status {
    return MakeError(ErrorCode::kIo, "no choice");
  };
  const std::vector<DraftRequest> requests = {{0, 2}};
  Status ran = rounds.Run(requests, kRows, head.Passes(), {}, fail);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "no choice");
  EXPECT_THAT(head.calls, ElementsAre("logits of 1"));
  head.status = MakeError(ErrorCode::kIo, "no pass");
  const auto choose = [](const DraftLogits& /*found*/, std::span<Token> tokens) {
    tokens[0] = 5;
    return Status();
  };
  ran = rounds.Run(requests, kRows, head.Passes(), {}, choose);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "no pass");
}

}  // namespace
}  // namespace fathom::model
