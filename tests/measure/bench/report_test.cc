// The forms of a report, and the picture.
#include "measure/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace fathom::measure::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Report Example() {
  Report report = {.model = "small",
                   .weight_gb = 1.5,
                   .isa = "avx2",
                   .n_threads = 2,
                   .page_bytes = 4096,
                   .chunk = 512,
                   .n_repetitions = 3,
                   .roofline = {.read_gb_s = 20, .fma_gflop_s = 100},
                   .best_roofline = {.read_gb_s = 21, .fma_gflop_s = 99},
                   .n_rooflines = 4};
  const std::pair<const char*, double> rows[] = {
      {"pp512", 40}, {"tg128", 8}, {"tg128@16384", 6}, {"tg128@4096", 7}, {"tg128x4", 16}};
  for (const auto& [name, tok_s] : rows) {
    report.rows.push_back({.row = *ParseRow(name),
                           .tok_s = {.min = tok_s - 1, .median = tok_s, .max = tok_s + 1},
                           .gb_per_token = 0.5,
                           .gflop_per_token = 2,
                           .experts_per_layer = 6});
  }
  return report;
}

TEST(Report, TableHasTheLimitsAndALinePerRow) {
  const std::string table = ToTable(Example());
  EXPECT_THAT(table, HasSubstr("small, 1.50 GB of weights"));
  EXPECT_THAT(table, HasSubstr("2 threads, avx2, pages of 4 KiB"));
  EXPECT_THAT(table, HasSubstr("read 20.00 GB/s, fma 100.0 GFLOP/s: the median of 4"));
  std::istringstream lines(table.substr(table.find("pp512")));
  std::string line;
  for (const char* name : {"pp512", "tg128", "tg128@16384", "tg128@4096", "tg128x4"}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_THAT(line, ::testing::StartsWith(std::string(name) + " "));
  }
  EXPECT_FALSE(std::getline(lines, line));
  std::istringstream all(table);
  while (std::getline(all, line)) {
    EXPECT_LE(line.size(), 100u) << line;
  }
  // tg128: 8 tok/s of 0.5 GB and 2 GFLOP.
  EXPECT_THAT(table, ::testing::ContainsRegex(
                         "tg128 +7\\.00 +8\\.00 +9\\.00 +4\\.00 +20\\.0 +16\\.00 +16\\.0\n"));
}

TEST(Report, JsonHasEveryFigure) {
  const nlohmann::json json = nlohmann::json::parse(ToJson(Example()), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["model"], "small");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["isa"], "avx2");
  EXPECT_EQ(json["page_bytes"], 4096);
  EXPECT_EQ(json["roofline"]["read_gb_s"], 20.0);
  EXPECT_EQ(json["roofline"]["fma_gflop_s"], 100.0);
  ASSERT_EQ(json["rows"].size(), 5u);
  const nlohmann::json& row = json["rows"][2];
  EXPECT_EQ(row["name"], "tg128@16384");
  EXPECT_EQ(row["kind"], "decode");
  EXPECT_EQ(row["depth"], 16384);
  EXPECT_EQ(row["tok_s"]["min"], 5.0);
  EXPECT_EQ(row["tok_s"]["median"], 6.0);
  EXPECT_EQ(row["tok_s"]["max"], 7.0);
  EXPECT_EQ(row["gb_s"], 3.0);
  EXPECT_EQ(row["percent_read"], 15.0);
  EXPECT_EQ(row["gflop_s"], 12.0);
  EXPECT_EQ(row["percent_fma"], 12.0);
  EXPECT_EQ(row["roofline"], json["roofline"]);
}

// A GPU: larger units, the copy bandwidth as the limit, and profiles.
Report OfAGpu() {
  Report report = Example();
  report.device = "NVIDIA H200";
  report.page_bytes = 0;
  report.roofline = {.read_gb_s = 4000, .fma_gflop_s = 60000, .copy_gb_s = 4200, .launch_us = 2.5};
  report.best_roofline = report.roofline;
  report.rows.resize(2);
  for (RowResult& row : report.rows) row.tok_s = {.min = 100, .median = 210, .max = 220};
  report.rows[1].profile =
      Profile{{{.name = "LinearFp8", .n = 3, .seconds = 0.75e-3, .cost = {.bytes = 1.575e9}},
               {.name = "(between)", .n = 2, .seconds = 0.25e-3}}};
  return report;
}

TEST(Report, TableOfAGpu) {
  const std::string table = ToTable(OfAGpu());
  EXPECT_THAT(table, HasSubstr("machine   NVIDIA H200\n"));
  EXPECT_THAT(table, HasSubstr("roofline  copy 4.20 TB/s, fma 60.0 TFLOP/s, read 4.00 TB/s, launch "
                               "2.50 us: the median"));
  // 210 tok/s of 0.5 GB and 2 GFLOP.
  EXPECT_THAT(table, ::testing::ContainsRegex(
                         "pp512 +100\\.00 +210\\.00 +220\\.00 +0\\.10 +2\\.5 +0\\.42 +0\\.7\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\ntg128 +layers +n +us"));
  EXPECT_THAT(table, ::testing::ContainsRegex(
                         "LinearFp8 +3 +750\\.0 +75\\.0 +1575\\.000 +2\\.100 +50\\.0\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\\(between\\) +2 +250\\.0 +25\\.0\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("\nall +1000\\.0 +100\\.0\n"));
}

TEST(Report, JsonOfAGpu) {
  const nlohmann::json json = nlohmann::json::parse(ToJson(OfAGpu()), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["device"], "NVIDIA H200");
  EXPECT_FALSE(json.contains("page_bytes"));
  EXPECT_EQ(json["roofline"]["copy_gb_s"], 4200.0);
  EXPECT_EQ(json["roofline"]["launch_us"], 2.5);
  EXPECT_EQ(json["rows"][0]["percent_copy"], 2.5);
  EXPECT_FALSE(json["rows"][0].contains("profile"));
  const nlohmann::json& kernels = json["rows"][1]["profile"]["kernels"];
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]["name"], "LinearFp8");
  EXPECT_EQ(kernels[0]["percent_copy"], 50.0);
  EXPECT_FALSE(kernels[1].contains("bytes"));
  const nlohmann::json of_processors = nlohmann::json::parse(ToJson(Example()), nullptr, false);
  EXPECT_FALSE(of_processors["roofline"].contains("copy_gb_s"));
  EXPECT_FALSE(of_processors["rows"][0].contains("percent_copy"));
}

TEST(Report, JsonIsValidWhateverTheDirectoryIsCalled) {
  Report report = Example();
  report.model = "a\"\xFF\n";
  EXPECT_FALSE(nlohmann::json::parse(ToJson(report), nullptr, false).is_discarded());
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    fields.push_back(field);
  }
  return fields;
}

TEST(Report, CsvHasAsManyFieldsAsNames) {
  std::istringstream lines(ToCsv(Example()));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const std::vector<std::string> names = Fields(line);
  EXPECT_EQ(names.front(), "name");
  int n_rows = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(Fields(line).size(), names.size()) << line;
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 5);
  EXPECT_THAT(ToCsv(Example()),
              HasSubstr("\ntg128,7,8,9,4,20,16,16,0.5,2,6,small,1,2,avx2,4096,512,"
                        "3,20,100\n"));
  Report report = Example();
  report.model = "a,\"b\"";
  EXPECT_THAT(ToCsv(report), HasSubstr(",\"a,\"\"b\"\"\","));
}

// How often `part` occurs.
int Count(const std::string& text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The names of the elements that are open at the end, outermost first; "broken" if an end has no
// beginning. Parses enough of XML for a file without comments and sections.
std::vector<std::string> OpenElements(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (end == std::string::npos || tag.find('<') != std::string::npos ||
        Count(tag, "\"") % 2 != 0) {
      return {"broken"};
    }
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        return {"broken"};
      }
      open.pop_back();
    } else if (tag.front() != '?' && tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open;
}

TEST(Plot, IsXmlWithAPointPerRow) {
  const std::string svg = ToSvg(Example());
  EXPECT_THAT(svg, ::testing::StartsWith("<?xml version=\"1.0\""));
  EXPECT_THAT(OpenElements(svg), ::testing::IsEmpty());
  EXPECT_EQ(Count(svg, "<circle "), 5);
  EXPECT_EQ(Count(svg, "<polyline "), 3);  // pp512; tg128 at three depths; tg128x4
  EXPECT_THAT(svg, HasSubstr("<title>tg128@16384: 6.00 tok/s (5.00 to 7.00)</title>"));
  EXPECT_THAT(svg, HasSubstr(">tokens per second</text>"));
  EXPECT_THAT(svg, HasSubstr(">tokens in the cache before</text>"));
  EXPECT_THAT(svg, HasSubstr(">tg128x4</text>"));
  EXPECT_THAT(svg, HasSubstr(">Prefill</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Plot, DeeperIsFurtherRightAndFasterIsHigher) {
  Report report = Example();
  report.rows = {report.rows[1], report.rows[3], report.rows[2]};  // 8, 7 and 6 tok/s
  const std::string svg = ToSvg(report);
  std::vector<std::pair<double, double>> points;
  for (std::size_t at = svg.find("<circle "); at != std::string::npos;
       at = svg.find("<circle ", at + 1)) {
    double x = 0;
    double y = 0;
    ASSERT_EQ(std::sscanf(svg.c_str() + at, "<circle cx=\"%lf\" cy=\"%lf\"", &x, &y), 2);
    points.emplace_back(x, y);
  }
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR((points[2].first - points[0].first) / (points[1].first - points[0].first), 4, 0.05);
  EXPECT_LT(points[0].second, points[1].second);
  EXPECT_LT(points[1].second, points[2].second);
}

TEST(Plot, NamesAreEscaped) {
  Report report = Example();
  report.model = "<a & \xFF\x01>";
  const std::string svg = ToSvg(report);
  EXPECT_THAT(svg, HasSubstr("&lt;a &amp; ??&gt;"));
  EXPECT_THAT(OpenElements(svg), ::testing::IsEmpty());
}

}  // namespace
}  // namespace fathom::measure::bench
