#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr const char* kPrompt = "Once upon a time there was a king who had three daughters,";

json Generate(std::vector<std::string> options) {
  options.insert(options.begin(), {"generate", kPrompt, "--json"});
  const ProgramRun run = RunProgram(options);
  EXPECT_EQ(run.exit_code, 0) << run.error;
  return ParseOutput(run);
}

TEST(GenerateTest, StreamsTextAndEndsWithRates) {
  const ProgramRun run = RunProgram({"generate", kPrompt, "--seed", "1", "-n", "20"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_GT(run.out.size(), 20u);
  EXPECT_EQ(run.out.back(), '\n');
  EXPECT_THAT(run.error,
              MatchesRegex("fathom: load [0-9.]+ s; prompt [0-9]+ tokens, [0-9.]+ tokens/s; "
                           "generated 20 tokens, [0-9.]+ tokens/s; seed 1\n"));
}

TEST(GenerateTest, SeedDecidesTheText) {
  const std::string first = Generate({"--seed", "5", "-n", "30"})["text"];
  EXPECT_EQ(first, Generate({"--seed", "5", "-n", "30", "--threads", "1"})["text"]);
  EXPECT_NE(first, Generate({"--seed", "6", "-n", "30"})["text"]);
  const json drawn = Generate({"-n", "30"});
  EXPECT_EQ(drawn["text"], Generate({"-n", "30", "--seed",
                                     std::to_string(drawn["seed"].get<std::uint64_t>())})["text"]);
}

TEST(GenerateTest, GreedyTextBeginsAsTheOfficialCodeWrites) {
  const auto path = SharedData("models/fairy/greedy.json");
  if (!path) GTEST_SKIP() << kNoSharedData;
  for (const json& golden : json::parse(ReadFile(*path))) {
    if (golden["kind"] != "raw") continue;
    // Up to the first near tie, where a legitimate difference may choose the other token.
    std::size_t n_sure = 0;
    while (n_sure < golden["margins"].size() && golden["margins"][n_sure] >= 0.5) {
      ++n_sure;
    }
    if (n_sure == 0) continue;
    const ProgramRun run = RunProgram({"generate", golden["prompt"], "--temperature", "0", "--json",
                                       "-n", std::to_string(n_sure)});
    const json ids = ParseOutput(run)["tokens"];
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), golden["greedy_ids"].begin()))
        << golden["prompt"] << run.out;
  }
}

TEST(GenerateTest, JsonHasEverything) {
  const json object = Generate({"--seed", "3", "-n", "4", "--logprobs", "2"});
  EXPECT_EQ(object["tokens"].size(), 4u);
  EXPECT_EQ(object["generated_tokens"], 4);
  EXPECT_GT(object["prompt_tokens"], 5);
  EXPECT_EQ(object["finish_reason"], "length");
  EXPECT_EQ(object["seed"], 3);
  EXPECT_THAT(object["model"].get<std::string>(), HasSubstr("fairy"));
  EXPECT_GT(object["timings"]["load_seconds"], 0);
  ASSERT_EQ(object["logprobs"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const json& entry = object["logprobs"][i];
    EXPECT_EQ(entry["token"], object["tokens"][i]);
    EXPECT_LE(entry["logprob"], 0);
    ASSERT_EQ(entry["top"].size(), 2u);
    EXPECT_GE(entry["top"][0]["logprob"], entry["top"][1]["logprob"]);
  }
}

TEST(GenerateTest, StopsWhereItIsTold) {
  const json whole = Generate({"--temperature", "0", "-n", "12"});
  const std::string text = whole["text"];
  const std::string stop = text.substr(text.size() / 2, 4);
  const json stopped = Generate({"--temperature", "0", "-n", "12", "--stop", stop});
  EXPECT_EQ(stopped["finish_reason"], "stop_string");
  EXPECT_EQ(stopped["stop"], stop);
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));

  const std::string third = std::to_string(whole["tokens"][2].get<int>());
  const json at_token = Generate({"--temperature", "0", "-n", "12", "--stop-token", third});
  EXPECT_EQ(at_token["finish_reason"], "stop");
  EXPECT_LE(at_token["tokens"].size(), 3u);
  const json biased = Generate({"--temperature", "0", "-n", "3", "--logit-bias", third + "=-100"});
  EXPECT_EQ(std::count(biased["tokens"].begin(), biased["tokens"].end(), whole["tokens"][2]), 0);
}

TEST(GenerateTest, RepeatedOptionsTakeOneValueEach) {
  const ProgramRun run = RunProgram({"generate", "--stop", "xyz", "--stop", "zyx", "--stop-token",
                                     "7", "--stop-token", "8", "--logit-bias", "9=1",
                                     "--logit-bias", "10=-1", "Once", "-n", "2", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(ParseOutput(run)["prompt_tokens"], 2);
}

TEST(GenerateTest, DefaultsComeFromTheModel) {
  // top_k 1 is greedy whatever the temperature; the model's own temperature is not.
  EXPECT_EQ(Generate({"--top-k", "1", "--seed", "1", "-n", "20"})["text"],
            Generate({"--temperature", "0", "-n", "20"})["text"]);
  EXPECT_NE(Generate({"--seed", "1", "-n", "20"})["text"],
            Generate({"--temperature", "0", "-n", "20"})["text"]);
  EXPECT_EQ(
      Generate({"--seed", "1", "-n", "20"})["text"],
      Generate({"--seed", "1", "-n", "20", "--temperature", "0.7", "--top-p", "0.9"})["text"]);
}

TEST(GenerateTest, BeginTokenIsAddedOnce) {
  const int plain = Generate({"-n", "1"})["prompt_tokens"];
  EXPECT_EQ(Generate({"-n", "1", "--no-bos"})["prompt_tokens"], plain - 1);
  const ProgramRun with = RunProgram(
      {"generate", std::string("<｜begin▁of▁sentence｜>") + kPrompt, "--json", "-n", "1"});
  EXPECT_EQ(ParseOutput(with)["prompt_tokens"], plain);
}

TEST(GenerateTest, ReadsThePromptFromStandardInput) {
  const ProgramRun run = RunProgram({"generate", "-", "--json", "--temperature", "0", "-n", "8"},
                                    {.standard_input = kPrompt});
  EXPECT_EQ(ParseOutput(run)["text"], Generate({"--temperature", "0", "-n", "8"})["text"]);
}

TEST(GenerateTest, RefusesWhatIsNotUtf8) {
  ExpectRefusal(RunProgram({"generate", "-"}, {.standard_input = "a\xFF"}), 1, "expected UTF-8");
  ExpectRefusal(RunProgram({"generate", "a\xC3"}), 1, "expected UTF-8");
}

TEST(GenerateTest, RefusesPromptsThatDoNotFit) {
  ExpectRefusal(RunProgram({"generate", kPrompt, "--context", "5"}), 1,
                "expected at most 5 tokens, the context, found ");
  ExpectRefusal(RunProgram({"generate", kPrompt, "--context", "65537"}), 1,
                "expected at most 65536");
  std::string endless;
  for (int i = 0; i < 70000; ++i) {
    endless += "x ";
  }
  ExpectRefusal(RunProgram({"generate", "-"}, {.standard_input = endless}), 1,
                "expected at most 65536 tokens");
  ExpectRefusal(RunProgram({"generate", "", "--no-bos"}), 1, "found none");
}

TEST(GenerateTest, ContextEndsTheAnswer) {
  const json object = Generate({"--context", "20", "--ignore-eos"});
  EXPECT_EQ(object["finish_reason"], "length");
  EXPECT_LE(object["prompt_tokens"].get<int>() + object["generated_tokens"].get<int>(), 21);
}

TEST(GenerateTest, TokenIdsMustBeOfThisModel) {
  ExpectRefusal(RunProgram({"generate", "x", "--stop-token", "4096"}), 1, "4095");
  ExpectRefusal(RunProgram({"generate", "x", "--logit-bias", "4096=1"}), 1, "4095");
  ExpectRefusal(RunProgram({"generate", "x", "-n", "3", "--min-tokens", "4"}), 1, "min_tokens");
}

TEST(GenerateTest, BrokenGenerationConfigIsNamed) {
  const TemporaryDirectory directory;
  const std::filesystem::path fairy = ProjectPath("models/fairy");
  for (const auto& entry : std::filesystem::directory_iterator(fairy)) {
    std::filesystem::create_symlink(entry.path(), directory.path() / entry.path().filename());
  }
  const std::filesystem::path config = directory.path() / "generation_config.json";
  std::filesystem::remove(config);
  const std::vector<std::string> arguments = {"generate", "x",       "-n",
                                              "1",        "--model", directory.path()};
  EXPECT_EQ(RunProgram(arguments).exit_code, 0) << "the file is optional";
  std::ofstream(config) << R"({"temperature": "hot"})";
  ExpectRefusal(RunProgram(arguments), 1, "generation_config.json: temperature");
  std::ofstream(config) << "{";
  ExpectRefusal(RunProgram(arguments), 1, "generation_config.json");
}

TEST(GenerateTest, ClosedPipeEndsQuietly) {
  const std::string script = fmt::format(
      "'{}' generate --ignore-eos -n 20000 'Once upon a time' | head -c 1; exit ${{PIPESTATUS[0]}}",
      ProgramPath().string());
  const ProgramRun run = RunProgram({"-c", script}, {.program = "/bin/bash"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out.size(), 1u);
  EXPECT_EQ(run.error, "");
}

TEST(GenerateTest, FullOutputIsAnError) {
  const ProgramRun run = RunProgram({"generate", kPrompt, "-n", "5"}, {.output = "/dev/full"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.error, HasSubstr("standard output: cannot write"));
}

TEST(GenerateTest, InstructionSetsAgree) {
  const std::string text = Generate({"--seed", "9", "-n", "20"})["text"];
  EXPECT_EQ(Generate({"--seed", "9", "-n", "20", "--cpu-isa", "scalar"})["text"], text);
}

// Steps of prompts run a layer at a time, so that sequences that decode can run between them.
TEST(GenerateTest, RanksThatReadExpertsFromDiskPauseBetweenLayers) {
  const TemporaryDirectory directory;
  const std::filesystem::path trace = directory.path() / "trace.json";
  const ProgramRun run =
      RunProgram({"launch", "-n", "2", "generate", "--threads", "1", "--context", "8192",
                  "--memory", "26M", "--max-tokens", "1", "--trace", trace, "Once upon a time"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  std::int64_t n_layers = 0;
  for (const json& event : json::parse(ReadFile(trace))) {
    if (event["name"] != "layer") continue;
    EXPECT_EQ(event["args"]["layers_done"], ++n_layers);
    EXPECT_EQ(event["args"]["layers"], 6);
  }
  EXPECT_EQ(n_layers, 6);
}

}  // namespace
}  // namespace fathom::testing
