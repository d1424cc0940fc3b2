// fathom plan: its two forms of output, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Example(const std::string& name) {
  return ProjectPath("docs/hardware/" + name + ".json");
}

ProgramRun Plan(std::vector<std::string> options, const std::string& hardware = "h200x8") {
  options.insert(options.begin(), {"plan", "--hardware", Example(hardware)});
  return RunProgram(options);
}

TEST(PlanTest, TableEndsWithTheFlagsToUse) {
  const ProgramRun run = Plan({"--shape", "flash", "--concurrency", "64"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_THAT(run.out, AllOf(HasSubstr("model     flash, 159.61 GB of weights, 3.51 KB"),
                             HasSubstr("1 node of 8 devices, 141.0 GB each"),
                             HasSubstr("64 sequences at a depth of 8192"),
                             HasSubstr(" more (--top"), HasSubstr("\nrecommended: --tp ")));
}

TEST(PlanTest, ProDoesNotFitOneDeviceAndSaysWhy) {
  const ProgramRun run = Plan({"--shape", "pro", "--top", "0"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, AllOf(HasSubstr("recommended: --tp 8 --pp 1 --ep 8\n"),
                             HasSubstr("memory: 864.7 GB for weights")));
}

TEST(PlanTest, OneHostStreamsWhatDoesNotFit) {
  const ProgramRun run = RunProgram(
      {"plan", "--memory", "14G", "--shape", "flash", "--disk-gb-s", "5", "--memory-gb-s", "20"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_THAT(run.out, AllOf(HasSubstr("model     flash, 159.61 GB of weights, 3.51 KB"),
                             HasSubstr("host      15.032 GB of memory: "),
                             HasSubstr(" GB dense weights; "), HasSubstr(" of 11008 experts ("),
                             HasSubstr("(disk 5 GB/s, memory 20 GB/s, assumed)"),
                             HasSubstr("\ndisk GB/s     0.5       3       6      12\ntokens/s ")));
  const nlohmann::json small =
      ParseOutput(RunProgram({"plan", "--memory", "8G", "--shape", "pro", "--format", "json"}));
  EXPECT_GT(small["host"]["dense_streamed_bytes"], 15e9);
  EXPECT_EQ(small["host"]["slots"], 24);
  EXPECT_EQ(small["by_disk"].size(), 4);
  const nlohmann::json large =
      ParseOutput(RunProgram({"plan", "--memory", "1T", "--shape", "flash", "--format", "json"}));
  EXPECT_EQ(large["host"]["fits"], true);
  EXPECT_EQ(large["host"]["read_bytes_per_token"], 0);
  ExpectRefusal(RunProgram({"plan", "--memory", "100M", "--shape", "flash"}), 1,
                "memory of the host: expected at least ");
}

TEST(PlanTest, RanksHaveTheFiguresOfInspect) {
  for (const std::vector<std::string>& division : {std::vector<std::string>(),
                                                   {"--dp-attention"},
                                                   {"--tp", "1", "--pp", "2"},
                                                   {"--ep", "1"}}) {
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"--memory", "26M", "--ranks", "2", "--disk-gb-s", "2.5"});
      words.insert(words.end(), division.begin(), division.end());
      return RunProgram(words);
    };
    const nlohmann::json plan = ParseOutput(with({"plan", "--format", "json"}));
    const nlohmann::json inspected = ParseOutput(with({"inspect", "--json"}))["memory"];
    EXPECT_EQ(plan["ranks"].size(), 2);
    EXPECT_EQ(plan["ranks"], inspected["ranks"]);
    EXPECT_EQ(plan["tokens_per_s"], inspected["tokens_per_s"]);
    EXPECT_LT(plan["by_disk"][0]["tokens_per_s"], plan["tokens_per_s"]);
    EXPECT_GT(plan["by_disk"][1]["tokens_per_s"], plan["tokens_per_s"]);
  }
  const ProgramRun text = RunProgram({"plan", "--memory", "18M", "--ranks", "2", "--concurrency",
                                      "2", "--chunk", "64", "--exchange", "unfused"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("\nhost      rank 0: "), HasSubstr("\n          rank 1: "),
                              HasSubstr("\n          all 2 ranks: "),
                              HasSubstr("\ndisk GB/s     0.5       3       6      12\n")));
}

TEST(PlanTest, JsonHasEverything) {
  const ProgramRun run =
      Plan({"--shape", "flash", "--format", "json", "--zipf", "1", "--redundant-experts", "64"});
  const nlohmann::json report = ParseOutput(run);
  EXPECT_EQ(report["hardware"]["devices_per_node"], 8);
  EXPECT_EQ(report["workload"]["redundant_experts"], 64);
  EXPECT_EQ(report["workload"]["exchange"], "fused");
  EXPECT_EQ(report["recommended"]["estimate"], false);
  ASSERT_GT(report["rows"].size(), 10u);
  for (const nlohmann::json& row : report["rows"]) {
    EXPECT_EQ(row["fits"].get<bool>(), row["problem"].get<std::string>().empty());
    EXPECT_GT(row["weight_bytes"], 0);
    EXPECT_GT(row["tpot_s"], 0);
    EXPECT_GT(row["ttft_s"], 0);
    EXPECT_LE(row["imbalance"]["balanced"], row["imbalance"]["plain"]);
    double parts = 0;
    for (const auto& [name, seconds] : row["tpot_parts_s"].items()) parts += seconds.get<double>();
    EXPECT_NEAR(parts / row["tpot_s"].get<double>(), 1, 1e-9);
    const nlohmann::json& wire = row["wire_bytes_per_token"];
    EXPECT_EQ(wire["experts"], row["expert_bytes_per_token"]["fused"]);
  }
}

TEST(PlanTest, DividedRowsMakeRoomForMoreSequences) {
  std::vector<std::string> options = {"--shape", "flash",     "--format",
                                      "json",    "--context", "1000000"};
  const auto tensor_8 = [&](const nlohmann::json& report) {
    for (const nlohmann::json& row : report["rows"]) {
      if (row["tp"] == 8 && row["ep"] == 8) return row;
    }
    return nlohmann::json();
  };
  const nlohmann::json whole = tensor_8(ParseOutput(Plan(options)));
  options.emplace_back("--decode-context-parallel");
  const nlohmann::json divided = tensor_8(ParseOutput(Plan(options)));
  EXPECT_EQ(divided["flags"], "--tp 8 --pp 1 --ep 8 --decode-context-parallel");
  EXPECT_EQ(whole["flags"], "--tp 8 --pp 1 --ep 8");
  EXPECT_GT(divided["capacity_sequences"], 5 * whole["capacity_sequences"].get<int>());
  EXPECT_EQ(divided["decode_context_parallel"], true);
  EXPECT_GT(divided["wire_bytes_per_token"]["rows"], 0);
  EXPECT_EQ(whole["wire_bytes_per_token"]["rows"], 0);
}

// 8 devices have room for 32 sequences of a million tokens if all cache all rows.
TEST(PlanTest, RowsAreDividedWhereMemoryIsShort) {
  const auto table = [](const std::string& concurrency) {
    return Plan({"--shape", "flash", "--context", "1000000", "--concurrency", concurrency, "--top",
                 "0"})
        .out;
  };
  const std::regex divided("\n  8 +1 +8 +1 +1 .* --decode-context-parallel\n");
  EXPECT_FALSE(std::regex_search(table("32"), divided));
  EXPECT_TRUE(std::regex_search(table("33"), divided));
}

TEST(PlanTest, SaysWhatBalancingBrings) {
  std::vector<std::string> options = {"--shape", "flash", "--concurrency", "256", "--zipf", "1"};
  EXPECT_THAT(Plan(options).out, Not(HasSubstr("balancing:")));
  options.insert(options.end(), {"--redundant-experts", "64"});
  EXPECT_THAT(Plan(options).out,
              HasSubstr(" --ep 8 --dp-attention\nbalancing:   imbalance 2.15 -> 1.00, decoding "));
}

TEST(PlanTest, TheEmbeddedModelIsThere) {
  const ProgramRun run = Plan({}, "two_cores");
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, AllOf(HasSubstr("model     fairy, 0.02 GB"), HasSubstr("recommended: ")));
}

TEST(PlanTest, AConfigurationIsEnough) {
  const TemporaryDirectory directory;
  WriteFile(directory.path() / "config.json", ReadFile(ProjectPath("models/fairy/config.json")));
  const nlohmann::json alone =
      ParseOutput(Plan({"--model", directory.path(), "--format", "json"}, "two_cores"));
  const nlohmann::json whole = ParseOutput(Plan({"--format", "json"}, "two_cores"));
  EXPECT_EQ(alone["rows"], whole["rows"]);
}

TEST(PlanTest, ReadsATraceOfExperts) {
  const TemporaryDirectory directory;
  WriteFile(directory.path() / "trace.json", R"({"loads": [[9, 1, 1, 1, 1, 1, 1, 1]]})");
  const nlohmann::json report = ParseOutput(
      Plan({"--expert-trace", directory.path() / "trace.json", "--format", "json"}, "two_cores"));
  bool has_experts = false;
  for (const nlohmann::json& row : report["rows"]) {
    if (row["ep"] == 2) {
      has_experts = true;
      // A token has 2 of 8 experts: the first always, of the others each seventh.
      EXPECT_NEAR(row["imbalance"]["plain"].get<double>(), 1 + 3.0 / 7, 1e-6);
    }
  }
  EXPECT_TRUE(has_experts);
}

TEST(PlanTest, RefusesWhatItCannotRead) {
  ExpectRefusal(RunProgram({"plan"}), 2, "--hardware");
  ExpectRefusal(RunProgram({"plan", "--memory", "1G", "--hardware", "/none.json"}), 2, "--memory");
  ExpectRefusal(RunProgram({"plan", "--memory", "1G", "--disk-gb-s", "0"}), 2, "--disk-gb-s");
  ExpectRefusal(Plan({"--disk-gb-s", "1"}), 2, "--memory");
  ExpectRefusal(Plan({"--ranks", "2"}), 2, "--memory");
  ExpectRefusal(Plan({"--tp", "2"}), 2, "--ranks");
  ExpectRefusal(RunProgram({"plan", "--memory", "1G", "--shape", "pro", "--ranks", "2"}), 2,
                "--shape");
  ExpectRefusal(RunProgram({"plan", "--memory", "1G", "--ranks", "3", "--pp", "2"}), 1, "--pp");
  ExpectRefusal(RunProgram({"plan", "--hardware", "/none.json"}), 1, "/none.json");
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "h.json";
  WriteFile(file, R"({"device": {"memory_bytes": 1, "memory_gb_s": "40"}})");
  ExpectRefusal(RunProgram({"plan", "--hardware", file}), 1,
                "h.json: device.memory_gb_s: expected a number");
  WriteFile(file, "{");
  ExpectRefusal(RunProgram({"plan", "--hardware", file}), 1, "h.json: ");
  ExpectRefusal(Plan({"--model", directory.path() / "none"}), 1, "no such model directory");
  ExpectRefusal(Plan({"--expert-trace", file}), 1, "h.json: ");
  ExpectRefusal(Plan({"--context", "100", "--prompt", "101"}), 1, "--prompt: expected at most 100");
  ExpectRefusal(Plan({"--shape", "flash", "--model", "x"}), 2, "--model");
  ExpectRefusal(Plan({"--shape", "base"}), 2, "--shape");
  ExpectRefusal(Plan({"--zipf", "-1"}), 2, "--zipf");
  ExpectRefusal(Plan({"--zipf", "1", "--expert-trace", file}), 2, "--expert-trace");
  ExpectRefusal(Plan({"--concurrency", "0"}), 2, "--concurrency");
  ExpectRefusal(Plan({"--format", "csv"}), 2, "--format");
}

}  // namespace
}  // namespace fathom::testing
