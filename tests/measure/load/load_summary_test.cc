// Figures of a level against values computed by hand.
#include "measure/load/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom::measure::load {
namespace {

using ::testing::HasSubstr;

TEST(PercentileTest, IsLinearBetweenNeighbours) {
  const std::vector<double> values = {1, 2, 3, 4, 10};
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(values, 50), 3);
  EXPECT_DOUBLE_EQ(Percentile(values, 90), 7.6);  // between 4 and 10, 0.6 of the way
  EXPECT_DOUBLE_EQ(Percentile(values, 95), 8.8);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 9.76);
  EXPECT_DOUBLE_EQ(Percentile(values, 100), 10);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{7}, 99), 7);
}

TEST(SpreadTest, SortsFirst) {
  const std::optional<Spread> spread = ComputeSpread({10, 1, 4, 2, 3});
  ASSERT_TRUE(spread);
  EXPECT_DOUBLE_EQ(spread->mean, 4);
  EXPECT_DOUBLE_EQ(spread->median, 3);
  EXPECT_DOUBLE_EQ(spread->p90, 7.6);
  EXPECT_EQ(ComputeSpread({}), std::nullopt);
}

// Two answers, a refusal twice, a lost connection, one cancelled; times in binary fractions.
LoadResult ExampleResult() {
  LoadResult result = {.duration_s = 8, .n_begun = 6};
  // Tokens at 0.5 s; two of them at 1 s; one at 2 s: 4 tokens.
  result.records.push_back({.start_s = 0,
                            .end_s = 2.25,
                            .chunks = {{0.5, 1}, {1, 2}, {2, 1}},
                            .n_input = 100,
                            .n_cached = 64,
                            .n_output = 4});
  // One token at 1.5 s.
  result.records.push_back(
      {.start_s = 1, .end_s = 2.5, .chunks = {{1.5, 1}}, .n_input = 50, .n_output = 1});
  result.records.push_back({.start_s = 2.5, .end_s = 3, .failure = "lost", .message = "eof"});
  for (const char* message : {"busy 1", "busy 2"}) {
    result.records.push_back({.start_s = 3, .end_s = 4, .failure = "HTTP 503", .message = message});
  }
  result.records.push_back({.start_s = 6, .end_s = 8, .cancelled = true, .failure = "cancelled"});
  return result;
}

TEST(SummaryTest, CountsAndRates) {
  const LoadSummary summary = Summarize(ExampleResult(), {});
  EXPECT_EQ(summary.n_successful, 2);
  EXPECT_EQ(summary.n_failed, 3);
  EXPECT_EQ(summary.n_cancelled, 1);
  EXPECT_EQ(summary.n_input, 150);
  EXPECT_EQ(summary.n_cached, 64);
  EXPECT_EQ(summary.n_output, 5);
  EXPECT_DOUBLE_EQ(summary.request_rate, 0.25);
  EXPECT_DOUBLE_EQ(summary.output_token_rate, 0.625);
  EXPECT_DOUBLE_EQ(summary.total_token_rate, 155.0 / 8);
  EXPECT_EQ(summary.goodput, std::nullopt);
  // 2.25 + 1.5 + 0.5 + 1 + 1 + 2 seconds of requests in 8.
  EXPECT_DOUBLE_EQ(summary.mean_concurrency, 8.25 / 8);
  EXPECT_EQ(summary.peak_concurrency, 2);
}

TEST(SummaryTest, TimesAreOfAnsweredRequests) {
  const LoadSummary summary = Summarize(ExampleResult(), {});
  ASSERT_TRUE(summary.ttft && summary.tpot && summary.itl && summary.e2e);
  EXPECT_DOUBLE_EQ(summary.ttft->mean, 1000);  // 500 and 1500
  EXPECT_DOUBLE_EQ(summary.tpot->mean, 500);   // 1.5 s over 3 tokens; one token has none
  EXPECT_DOUBLE_EQ(summary.itl->mean, 500);    // 250, 250, 1000
  EXPECT_DOUBLE_EQ(summary.itl->median, 250);
  EXPECT_DOUBLE_EQ(summary.itl->p90, 850);
  EXPECT_DOUBLE_EQ(summary.e2e->mean, 1875);  // 2250 and 1500
  EXPECT_DOUBLE_EQ(summary.e2e->p99, 2242.5);
}

TEST(SummaryTest, FailuresAreCountedByKindWithTheFirstMessage) {
  const LoadSummary summary = Summarize(ExampleResult(), {});
  ASSERT_EQ(summary.failures.size(), 2u);
  EXPECT_EQ(summary.failures[0].failure, "HTTP 503");
  EXPECT_EQ(summary.failures[0].n, 2);
  EXPECT_EQ(summary.failures[0].message, "busy 1");
  EXPECT_EQ(summary.failures[1].failure, "lost");
  EXPECT_EQ(summary.failures[1].n, 1);
}

TEST(SummaryTest, GoodputCountsWhatKeepsAllObjectives) {
  const auto goodput = [](std::initializer_list<const char*> texts) {
    Objectives objectives;
    for (const char* text : texts) {
      EXPECT_TRUE(AddObjective(text, &objectives)) << text;
    }
    return Summarize(ExampleResult(), objectives).goodput.value_or(-1);
  };
  EXPECT_DOUBLE_EQ(goodput({"ttft:1500"}), 0.25);  // both, on the limit
  EXPECT_DOUBLE_EQ(goodput({"ttft:1499"}), 0.125);
  EXPECT_DOUBLE_EQ(goodput({"tpot:499"}), 0.125);  // one token has no time per token
  EXPECT_DOUBLE_EQ(goodput({"e2e:2000"}), 0.125);
  EXPECT_DOUBLE_EQ(goodput({"ttft:1000", "e2e:2000"}), 0);
}

TEST(SummaryTest, NothingIsNothing) {
  const LoadSummary summary = Summarize({}, {});
  EXPECT_EQ(summary.n_successful, 0);
  EXPECT_EQ(summary.request_rate, 0);
  EXPECT_EQ(summary.ttft, std::nullopt);
  EXPECT_EQ(summary.peak_concurrency, 0);
}

TEST(ObjectivesTest, RefusesWhatIsNone) {
  Objectives objectives;
  for (const char* text :
       {"", "ttft", "ttft:", "ttft:0", "ttft:-1", "ttft:x", "itl:5", "e2e:inf"}) {
    const Status added = AddObjective(text, &objectives);
    ASSERT_FALSE(added) << text;
    EXPECT_THAT(added.error().message, HasSubstr("expected ttft:MS, tpot:MS or e2e:MS"));
  }
  EXPECT_FALSE(objectives.any());
}

}  // namespace
}  // namespace fathom::measure::load
