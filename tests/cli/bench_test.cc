// fathom bench: its forms of output on the embedded model, and what it refuses.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/processors.h"
#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// Little memory and few tokens: the figures mean nothing.
ProgramRun Bench(std::vector<std::string> options) {
  options.insert(options.begin(), {"bench", "--bandwidth-mib", "8", "--threads", "2"});
  return RunProgram(options);
}

TEST(BenchTest, ProfileIsOfEveryRowAndATrace) {
  const TemporaryDirectory directory;
  const std::string trace = (directory.path() / "step.json").string();
  const ProgramRun run =
      Bench({"--rows", "tg1,pp8", "--reps", "1", "--profile", "--trace", trace, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const nlohmann::json report = ParseOutput(run);
  for (const nlohmann::json& row : report["rows"]) {
    double seconds = 0;
    for (const nlohmann::json& kernel : row["profile"]["kernels"]) {
      seconds += kernel["seconds"].get<double>();
    }
    EXPECT_NEAR(seconds, row["profile"]["seconds"].get<double>(), 1e-9);
    EXPECT_GT(seconds, 0);
  }
  const nlohmann::json events = nlohmann::json::parse(std::ifstream(trace), nullptr, false);
  ASSERT_TRUE(events.is_array());
  std::set<std::string> tracks;
  std::set<std::string> names;
  for (const nlohmann::json& event : events) {
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
    if (event["ph"] == "X") names.insert(event["name"]);
  }
  EXPECT_THAT(tracks, IsSupersetOf({"tg1", "pp8", "tg1: hash, ratio 0", "pp8: learned, ratio 4"}));
  EXPECT_THAT(names, IsSupersetOf({"HcPre", "SparseAttention", "ExpertRows"}));
}

TEST(BenchTest, TraceNeedsAProfile) {
  const ProgramRun run = Bench({"--rows", "tg1", "--trace", "x.json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.error, HasSubstr("--profile"));
}

TEST(BenchTest, JsonHasTheRowsAndTheLimits) {
  const ProgramRun run = Bench({"--rows", "pp32,tg4,tg4@64,tg4x2", "--reps", "2", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const nlohmann::json report = ParseOutput(run);
  EXPECT_EQ(report["model"], "fairy");
  EXPECT_EQ(report["threads"], 2);
  EXPECT_EQ(report["repetitions"], 2);
  ASSERT_EQ(report["rows"].size(), 4u);
  const char* names[] = {"pp32", "tg4", "tg4@64", "tg4x2"};
  for (std::size_t i = 0; i < 4; ++i) {
    const nlohmann::json& row = report["rows"][i];
    EXPECT_EQ(row["name"], names[i]);
    EXPECT_GT(row["tok_s"]["min"], 0.0);
    EXPECT_GE(row["tok_s"]["median"], row["tok_s"]["min"]);
    EXPECT_GE(row["tok_s"]["max"], row["tok_s"]["median"]);
    EXPECT_GT(row["gb_s"], 0.0);
    EXPECT_GT(row["gflop_s"], 0.0);
    EXPECT_GT(row["roofline"]["read_gb_s"], 0.0);
    EXPECT_GT(row["roofline"]["fma_gflop_s"], 0.0);
    EXPECT_EQ(row["roofline"], report["roofline"]);
  }
  EXPECT_EQ(run.error, "");  // the formulas agree with the tensors
}

// The model and what it is compared with use the same pages and processors.
TEST(BenchTest, MeasuresOnTheMemoryAndTheProcessorsAskedFor) {
  const std::vector<std::string> options = {"bench", "--bandwidth-mib", "8", "--rows",
                                            "tg1",   "--reps",          "1", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), options.begin(), options.end());
    const ProgramRun run = RunProgram(more);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return run;
  };
  EXPECT_EQ(ParseOutput(with({}))["page_bytes"], 4096);
  const ProgramRun huge = with({"--huge-pages"});
  if (huge.error.empty()) {  // else the kernel gave the model none
    EXPECT_EQ(ParseOutput(huge)["page_bytes"], 2 << 20);
  }
  const std::vector<int> allowed = AllowedProcessors();
  EXPECT_EQ(ParseOutput(with({"--cpus", fmt::format("{}", fmt::join(allowed, ","))}))["threads"],
            allowed.size());
}

TEST(BenchTest, PrintsATableAndDrawsAPlot) {
  const TemporaryDirectory directory;
  const std::string plot = directory.path() / "speed.svg";
  const ProgramRun run = Bench({"--rows", "tg2,tg2@3", "--reps", "1", "--plot", plot, "--cpu-isa",
                                "scalar", "--model", ProjectPath("models/fairy/")});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, HasSubstr("model     fairy, 0.02 GB"));
  EXPECT_THAT(run.out, HasSubstr("1 thread, scalar, pages of 4 KiB"));
  EXPECT_THAT(run.out, HasSubstr("\ntg2@3 "));
  EXPECT_THAT(ReadFile(plot), HasSubstr("<title>tg2@3: "));
}

TEST(BenchTest, PrintsCommaSeparatedValues) {
  const ProgramRun run = Bench({"--rows", "pp5", "--chunk", "2", "--reps", "1", "--csv"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, ::testing::StartsWith("name,tok_s_min,"));
  EXPECT_THAT(run.out, HasSubstr("\npp5,"));
}

TEST(BenchTest, RefusesRowsThatAreNone) {
  ExpectRefusal(Bench({"--rows", "pp32,tg"}), 2, "row \"tg\": expected ppN, tgN");
  ExpectRefusal(Bench({"--rows", "tg4x0"}), 2, "row \"tg4x0\"");
  ExpectRefusal(Bench({"--rows", ""}), 2, "--rows");
  ExpectRefusal(Bench({"--rows", "tg4,tg4"}), 2, "found twice");
  ExpectRefusal(Bench({"--rows", "tg1,tg4@65533"}), 1,
                "row \"tg4@65533\": expected at most 65536 positions, those of this model, found "
                "65537");
}

TEST(BenchTest, RefusesOtherBadValues) {
  ExpectRefusal(Bench({"--rows", "tg1", "--reps", "0"}), 2, "--reps");
  ExpectRefusal(Bench({"--rows", "tg1", "--chunk", "0"}), 2, "--chunk");
  ExpectRefusal(Bench({"--rows", "tg1", "--json", "--csv"}), 2, "--csv");
  const TemporaryDirectory directory;
  ExpectRefusal(Bench({"--rows", "tg1", "--plot", directory.path()}), 1, "found a directory");
  ExpectRefusal(Bench({"--rows", "tg1", "--plot", directory.path() / "no" / "plot.svg"}), 1,
                "plot.svg: cannot write");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace fathom::testing
