// The forms of a report, and the picture.
#include "measure/load/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace fathom::measure::load {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

LoadReport Example() {
  LoadReport report = {.url = "http://a:1", .model = "m<1>", .endpoint = LoadEndpoint::kChat};
  report.workload.input = *ParseLength("uniform:5:9");
  for (const int concurrency : {1, 2, 4, 8, 16, 32}) {
    LoadSummary summary = {.n_successful = 10,
                           .duration_s = 2.5,
                           .n_output = 100,
                           .output_token_rate = 10.0 * concurrency,
                           .ttft = Spread{.mean = 1, .median = 2, .p90 = 3, .p95 = 4, .p99 = 5}};
    if (concurrency == 32) {
      summary.n_failed = 3;
      summary.failures = {{.failure = "HTTP 503", .n = 3, .message = "busy"}};
    }
    report.levels.push_back({{.concurrency = concurrency}, summary});
  }
  return report;
}

std::size_t CountLines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(LoadReportTest, TableHasAColumnPerLevel) {
  const std::string table = ToTable(Example());
  EXPECT_THAT(table, HasSubstr("server  http://a:1, chat\nmodel   m<1>\n"));
  EXPECT_THAT(table, ContainsRegex("\n +1 at once +2 at once +4 at once +8 at once +16 at once\n"));
  EXPECT_THAT(table, ContainsRegex("\n +32 at once\n"));
  EXPECT_THAT(table, ContainsRegex("Output tokens \\(per s\\) +10\\.00 +20\\.00 +40\\.00"));
  EXPECT_THAT(table, ContainsRegex("TTFT p99 \\(ms\\) +5\\.00"));
  EXPECT_THAT(table, ContainsRegex("TPOT p99 \\(ms\\) +- +-"));
  EXPECT_THAT(table, HasSubstr("32 at once: 3 of HTTP 503: busy\n"));
  EXPECT_THAT(table, Not(HasSubstr("interrupted")));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(LoadReportTest, SaysThatItWasInterrupted) {
  LoadReport report = Example();
  report.interrupted = true;
  EXPECT_THAT(ToTable(report), HasSubstr("interrupted: the last level is short\n"));
}

TEST(LoadReportTest, JsonHasEveryFigure) {
  const nlohmann::json json = nlohmann::json::parse(ToJson(Example()), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["endpoint"], "chat");
  EXPECT_EQ(json["input_tokens"]["uniform"], (nlohmann::json{5, 9}));
  EXPECT_EQ(json["output_tokens"], 128);
  ASSERT_EQ(json["levels"].size(), 6u);
  const nlohmann::json& level = json["levels"][5];
  EXPECT_EQ(level["concurrency"], 32);
  EXPECT_EQ(level["rate"], nullptr);
  EXPECT_EQ(level["successful_requests"], 10);
  EXPECT_EQ(level["failed_requests"], 3);
  EXPECT_EQ(level["output_token_throughput"], 320.0);
  EXPECT_EQ(level["goodput"], nullptr);
  EXPECT_EQ(level["ttft_ms"]["p95"], 4.0);
  EXPECT_EQ(level["itl_ms"], nullptr);
  EXPECT_EQ(level["failures"][0]["failure"], "HTTP 503");
  EXPECT_EQ(level["failures"][0]["requests"], 3);
}

TEST(LoadReportTest, CsvHasALinePerLevel) {
  const std::string csv = ToCsv(Example());
  EXPECT_EQ(CountLines(csv), 7u);
  EXPECT_THAT(csv, ::testing::StartsWith("rate,concurrency,successful_requests,"));
  std::istringstream lines(csv);
  std::size_t n_fields = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto n = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    EXPECT_TRUE(n_fields == 0 || n == n_fields) << line;
    n_fields = n;
  }
  EXPECT_THAT(csv, HasSubstr("\n,32,10,3,0,2.5,"));
}

TEST(LoadReportTest, OpenLoopsAreNamedByTheirRate) {
  LoadReport report = Example();
  report.levels = {{{.rate = 0.5}, report.levels[0].summary}};
  EXPECT_THAT(ToTable(report), HasSubstr("0.5 req/s"));
  EXPECT_THAT(ToCsv(report), HasSubstr("\n0.5,,10,"));
  const nlohmann::json json = nlohmann::json::parse(ToJson(report), nullptr, false);
  EXPECT_EQ(json["levels"][0]["rate"], 0.5);
  EXPECT_EQ(json["levels"][0]["concurrency"], nullptr);
}

TEST(LoadChartTest, DrawsThroughputAndLatency) {
  const std::string svg = ToSvg(Example());
  EXPECT_THAT(svg, HasSubstr("m&lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr("requests at once"));
  EXPECT_THAT(svg, HasSubstr("<title>output, 8 at once: 80.00</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>p99, 16 at once: 5.00</title>"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST(LoadChartTest, DrawsNothingOfNothing) {
  LoadReport report = Example();
  report.levels.clear();
  EXPECT_THAT(ToSvg(report), ::testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace fathom::measure::load
