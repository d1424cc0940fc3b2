// The options of the engine: memory, disk, batches, drafts and the trace. None of them changes what
// is said, but for the one that exists for measurements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "measure/slice/write_slice.h"
#include "runtime/checkpoint_fingerprint.h"
#include "runtime/runtime.h"
#include "tests/cli/program.h"
#include "tests/measure/slice/tiny.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Some 390 tokens: three blocks of a cache.
std::string LongPrompt() {
  std::string prompt;
  for (int i = 0; i < 30; ++i) {
    prompt += "The king had a daughter who was fair and good, and ";
  }
  return prompt;
}

ProgramRun RunGenerate(const std::string& prompt, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"generate", prompt, "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return RunProgram(arguments);
}

json GenerateWith(const std::string& prompt, const std::vector<std::string>& options) {
  const ProgramRun run = RunGenerate(prompt, options);
  EXPECT_EQ(run.exit_code, 0) << run.error;
  return ParseOutput(run);
}

TEST(EngineOptions, FormsHaveMemoryOfTheirOwn) {
  for (const char* command : {"serve", "batch"}) {
    EXPECT_THAT(RunProgram({command, "--help"}).out, HasSubstr("--constraint-memory SIZE"));
  }
  const ProgramRun run = RunProgram({"serve", "--constraint-memory", "63M"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.error, HasSubstr("--constraint-memory: expected at least 64M, found 66060288"));
}

TEST(EngineOptions, HelpNamesThem) {
  for (const char* command : {"generate", "chat", "batch"}) {
    const std::string help = RunProgram({command, "--help"}).out;
    for (const char* option : {"Engine:", "--kv-memory SIZE", "--kv-disk DIR",
                               "--kv-disk-size SIZE", "--max-batch-tokens N", "--max-sequences N",
                               "--prefix-cache MODE", "--draft DEPTH", "--trace FILE"}) {
      EXPECT_THAT(help, HasSubstr(option)) << command;
    }
    EXPECT_THAT(help, Not(HasSubstr("--draft-acceptance"))) << command;
    EXPECT_LT(help.find("Model:"), help.find("Engine:")) << command;
    EXPECT_LT(help.find("Engine:"), help.find("Sampling:")) << command;
  }
  EXPECT_THAT(RunProgram({"generate", "x", "--bogus"}).error, Not(HasSubstr("acceptance")));
}

TEST(EngineOptions, BadValuesAreExplained) {
  struct Case {
    const char* option;
    const char* value;
    const char* message;
  };
  constexpr const char* kDraftDepths =
      "one of off auto lookup all 1 2 3 4 5 6 7 8 lookup:1 lookup:2 lookup:3 lookup:4 lookup:5 "
      "lookup:6 lookup:7 lookup:8";
  constexpr const char* kSize = "a number of bytes like 65536, 512K, 64M, 1.5G or 1T";
  for (const auto& [option, value, message] : {
           Case{"--kv-memory", "0", kSize},
           Case{"--kv-memory", "", kSize},
           Case{"--kv-memory", "G", kSize},
           Case{"--kv-memory", "-1G", kSize},
           Case{"--kv-memory", "1.5", kSize},
           Case{"--kv-memory", "1.G", kSize},
           Case{"--kv-memory", ".5G", kSize},
           Case{"--kv-memory", "1.5e3G", kSize},
           Case{"--kv-memory", "0.0000000001G", kSize},
           Case{"--kv-memory", "1GB", kSize},
           Case{"--kv-memory", "1g", kSize},
           Case{"--kv-memory", "8388608T", kSize},
           Case{"--kv-disk-size", "much", kSize},
           Case{"--max-batch-tokens", "0", "a whole number from 1 to 65536"},
           Case{"--max-batch-tokens", "65537", "a whole number from 1 to 65536"},
           Case{"--max-sequences", "0", "a whole number from 1 to 4096"},
           Case{"--prefix-cache", "maybe", "one of on off"},
           Case{"--draft", "0", kDraftDepths},
           Case{"--draft", "9", kDraftDepths},
           Case{"--draft", "on", kDraftDepths},
       }) {
    const ProgramRun run = RunProgram({"generate", "x", option, value, "--kv-disk", "/nowhere"});
    ExpectRefusal(run, 2, std::string(option) + ": expected " + message);
    EXPECT_THAT(run.error, HasSubstr(std::string("found \"") + value + "\""));
  }
  ExpectRefusal(RunProgram({"generate", "x", "--draft", "5"}), 1,
                "draft depth: expected 0 to 4, found 5");
  ExpectRefusal(RunProgram({"generate", "x", "--draft-acceptance", "1.1"}), 2,
                "a number from 0 to 1, found \"1.1\"");
  ExpectRefusal(RunProgram({"generate", "x", "--kv-disk-size", "1G"}), 2,
                "--kv-disk-size requires --kv-disk");
}

TEST(EngineOptions, SizesMayHaveDecimals) {
  for (const auto& [size, shown] :
       {std::pair("209715200", "209.7 MB"), std::pair("204800K", "209.7 MB"),
        std::pair("200.5M", "210.2 MB"), std::pair("0.2G", "214.7 MB")}) {
    ExpectRefusal(RunProgram({"plan", "--shape", "flash", "--memory", size}), 1,
                  std::string("found ") + shown + ";");
  }
}

TEST(EngineOptions, ContradictionsAreExplained) {
  const TemporaryDirectory directory;
  const std::string disk = directory.path() / "disk";
  ExpectRefusal(RunProgram({"generate", "x", "--kv-disk", disk, "--prefix-cache", "off"}), 1,
                "--kv-disk: what is kept there is found by the prefix cache");
  ExpectRefusal(
      RunProgram({"generate", "x", "--max-batch-tokens", "3", "--max-sequences", "4"}), 1,
      "--max-batch-tokens: expected at least --max-sequences (4), a token of each, found 3");
  EXPECT_FALSE(std::filesystem::exists(disk));
}

TEST(EngineOptions, FilesThatCannotBeWrittenAreNamed) {
  const TemporaryDirectory directory;
  WriteFile(directory.path() / "file", "");
  const std::string below_a_file = directory.path() / "file" / "x";
  for (const char* option : {"--trace", "--kv-disk"}) {
    ExpectRefusal(RunProgram({"generate", "x", option, below_a_file}), 1, below_a_file + ": ");
  }
}

// Opening a pipe that nobody reads would wait without end.
TEST(EngineOptions, ATraceIsARegularFile) {
  const TemporaryDirectory directory;
  const std::string pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefusal(RunProgram({"generate", "x", "--trace", pipe}), 1,
                pipe + ": expected a regular file to write, found a pipe");
}

TEST(EngineOptions, MemoryMustBeEnoughForAWindow) {
  ExpectRefusal(RunGenerate("x", {"--kv-memory", "64K"}), 1, "expected at least ");
  ExpectRefusal(RunGenerate("x", {"--kv-memory", "64K"}), 1, "found 0.065 MB");
  // The keys of one context fit, those of the other do not.
  ExpectRefusal(
      RunGenerate(LongPrompt(), {"--kv-memory", "2M", "--context", "60000", "-n", "50000"}), 1,
      "prompt and max_tokens: expected at most ");
}

// The embedded model, whose experts are 5.9 MB.
TEST(EngineOptions, ExpertsThatDoNotFitAreStreamed) {
  const std::vector<std::string> base = {"--seed", "2", "-n", "30", "--context", "2048"};
  const auto with_memory = [&](const std::string& size) {
    std::vector<std::string> options = base;
    options.insert(options.end(), {"--memory", size, "--log-level", "info"});
    return RunGenerate(LongPrompt(), options);
  };
  const json plain = GenerateWith(LongPrompt(), base);
  const ProgramRun all = with_memory("1G");
  EXPECT_EQ(ParseOutput(all)["tokens"], plain["tokens"]);
  EXPECT_THAT(all.error, HasSubstr("; all of it fits\n"));
  const ProgramRun streamed = with_memory("19M");
  EXPECT_EQ(streamed.exit_code, 0) << streamed.error;
  EXPECT_EQ(ParseOutput(streamed)["tokens"], plain["tokens"]);
  EXPECT_THAT(streamed.error,
              AllOf(HasSubstr("fathom: warning: 0.020 GB of memory: "),
                    HasSubstr(" of 48 experts "), HasSubstr("expected hit rate 0."),
                    HasSubstr(" GB read per token, "), HasSubstr(" GB/s, measured)\n")));
  EXPECT_THAT(RunGenerate("x", {"-n", "1", "--mirror", "elsewhere"}).error,
              HasSubstr("warning: --mirror: not read, since no experts are read from disk"));
  ExpectRefusal(RunGenerate("x", {"--memory", "19M", "--context", "2048", "--mirror", "elsewhere"}),
                1, "--mirror: elsewhere/");
  const ProgramRun few = RunGenerate("x", {"--memory", "1M", "--kv-memory", "16M"});
  ExpectRefusal(few, 1, "memory of the host: expected at least ");
  EXPECT_THAT(few.error, HasSubstr("), found 1.0 MB; smaller values of --kv-memory"));
  ExpectRefusal(RunGenerate("x", {"--memory", "1.5"}), 2, "--memory: expected a number of bytes");
}

// Each rank has a pool of its own.
TEST(EngineOptions, RanksStreamTheirExperts) {
  const TemporaryDirectory directory;
  const std::vector<std::string> base = {"--seed", "2", "-n", "30", "--context", "512"};
  const json plain = GenerateWith("x", base);
  const auto run = [&](const char* n_ranks, std::vector<std::string> options,
                       const char* memory = "20M") {
    std::vector<std::string> words = {"launch", "-n",     n_ranks,    "--",  "generate",
                                      "x",      "--json", "--memory", memory};
    words.insert(words.end(), base.begin(), base.end());
    words.insert(words.end(), options.begin(), options.end());
    return RunProgram(words);
  };
  const std::string heat = (directory.path() / "heat").string();
  for (const auto& [n_ranks, options] :
       {std::pair<const char*, std::vector<std::string>>("2", {"--expert-heat", heat}),
        {"2", {"--dp-attention"}},
        {"2", {"--redundant-experts", "4"}},
        {"4", {"--pp", "2"}}}) {
    const ProgramRun streamed = run(n_ranks, options);
    EXPECT_EQ(streamed.exit_code, 0) << streamed.error;
    EXPECT_EQ(ParseOutput(streamed)["tokens"], plain["tokens"]) << streamed.error;
    EXPECT_THAT(streamed.error,
                AllOf(HasSubstr("fathom: warning: rank 0: 0.021 GB of memory: "),
                      HasSubstr("fathom: warning: rank 1: 0.021 GB of memory: "),
                      HasSubstr(fmt::format("fathom: warning: all {} ranks: ", n_ranks))));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(heat), {}), 2);
  ExpectRefusal(run("2", {"--eplb-interval", "64"}), 1,
                "--eplb-interval: expected memory for all experts, since experts that are read "
                "from disk do not move between ranks; found memory for ");
  ExpectRefusal(run("2", {}, "1M"), 1, "rank 0: memory of the host for caches: expected at least ");
}

TEST(EngineOptions, NoneOfThemChangesTheText) {
  const TemporaryDirectory directory;
  const std::vector<std::string> base = {"--seed", "2", "-n", "40"};
  const json plain = GenerateWith(LongPrompt(), base);
  EXPECT_EQ(plain["tokens"].size(), 40u);
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--draft", "off"},
                                                  {"--draft", "auto"},
                                                  {"--draft", "all"},
                                                  {"--draft", "lookup"},
                                                  {"--draft", "lookup:1"},
                                                  {"--draft", "lookup:8"},
                                                  {"--prefix-cache", "off"},
                                                  {"--max-batch-tokens", "7"},
                                                  {"--max-batch-tokens", "1"},
                                                  {"--max-sequences", "3"},
                                                  {"--kv-memory", "64M"},
                                                  {"--kv-disk", directory.path() / "disk"},
                                                  {"--trace", directory.path() / "trace.json"}}) {
    std::vector<std::string> all = base;
    all.insert(all.end(), options.begin(), options.end());
    EXPECT_EQ(GenerateWith(LongPrompt(), all)["tokens"], plain["tokens"])
        << ::testing::PrintToString(options);
  }
}

TEST(EngineOptions, DraftsDoNotChangeTheText) {
  std::int64_t n_accepted = 0;
  for (const char* temperature : {"0", "0.5", "1", "1.7"}) {
    for (const char* seed : {"1", "2", "3"}) {
      const std::vector<std::string> base = {
          "--temperature", temperature, "--seed", seed, "-n", "40"};
      std::vector<std::string> off = base;
      off.insert(off.end(), {"--draft", "off"});
      const json plain = GenerateWith("Once upon a time", off);
      EXPECT_EQ(plain["drafted_tokens"], 0);
      for (const char* depth : {"1", "4"}) {
        std::vector<std::string> on = base;
        on.insert(on.end(), {"--draft", depth});
        const json drafted = GenerateWith("Once upon a time", on);
        EXPECT_EQ(drafted["tokens"], plain["tokens"]) << temperature << " " << seed;
        EXPECT_GT(drafted["drafted_tokens"], 10);
        n_accepted += drafted["accepted_tokens"].get<std::int64_t>();
      }
    }
  }
  EXPECT_GT(n_accepted, 100);
}

TEST(EngineOptions, SimulatedAcceptanceIsWhatWasAskedFor) {
  const auto drafted = [](const char* rate) {
    const json object = GenerateWith(
        "Once", {"--draft", "1", "--draft-acceptance", rate, "-n", "60", "--ignore-eos"});
    return std::pair(object["drafted_tokens"].get<int>(), object["accepted_tokens"].get<int>());
  };
  EXPECT_EQ(drafted("0").second, 0);
  const auto [n_drafted, n_accepted] = drafted("1");
  EXPECT_EQ(n_accepted, n_drafted);
  EXPECT_GE(n_drafted, 28);
}

TEST(EngineOptions, DraftsNeedAHead) {
  const TemporaryDirectory directory;
  ThreadTeam team(1);
  const auto written = WriteSlice(
      directory.path(), {.config = TinyConfig({.ratios = {0, 4}, .vocab_size = 512}), .seed = 3},
      team, {});
  ASSERT_TRUE(written) << written.error().message;
  const std::vector<std::string> base = {"--model", directory.path(), "-n", "3", "--seed", "1"};
  for (const char* depth : {"auto", "off"}) {
    std::vector<std::string> options = base;
    options.insert(options.end(), {"--draft", depth});
    EXPECT_EQ(GenerateWith("x", options)["drafted_tokens"], 0);
  }
  std::vector<std::string> options = base;
  options.insert(options.end(), {"--draft", "1"});
  ExpectRefusal(RunGenerate("x", options), 1,
                "expected an MTP head (mtp.0.e_proj.weight and others) or a DSpark head "
                "(mtp.0.main_proj.weight and others), found no draft head");
}

// 8 tokens and the one behind them in a step, without a head.
TEST(EngineOptions, LooksUpWhatRepeats) {
  const json object = GenerateWith(
      "Once", {"--draft", "lookup:8", "--logit-bias", "7=100", "-n", "60", "--ignore-eos"});
  EXPECT_GE(object["accepted_tokens"], 40);
  EXPECT_EQ(object["accepted_tokens"], object["drafted_tokens"]);
}

TEST(EngineOptions, TraceIsJson) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "trace.json";
  GenerateWith("Once upon a time", {"-n", "5", "--trace", file});
  const json trace = json::parse(ReadFile(file), nullptr, false);
  ASSERT_TRUE(trace.is_array());
  int n_steps = 0;
  for (const json& event : trace) {
    n_steps += event["ph"] == "X" && event["tid"] == 0 ? 1 : 0;
  }
  EXPECT_GE(n_steps, 1);
}

TEST(EngineOptions, WhatIsOnDiskSurvivesARestart) {
  const TemporaryDirectory directory;
  const std::string disk = directory.path() / "disk";
  const std::vector<std::string> options = {"--seed", "2", "-n", "20", "--kv-disk", disk};
  const json first = GenerateWith(LongPrompt(), options);
  EXPECT_EQ(first["cached_tokens"], 0);
  const json second = GenerateWith(LongPrompt(), options);
  EXPECT_EQ(second["tokens"], first["tokens"]);
  const auto n_prompt = first["prompt_tokens"].get<std::int64_t>();
  EXPECT_EQ(second["cached_tokens"], (n_prompt - 1) / 128 * 128);
  // Without --json the line says so.
  std::vector<std::string> arguments = {"generate", LongPrompt()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  EXPECT_THAT(RunProgram(arguments).error, HasSubstr(" cached), "));
  // Room for nothing: it is as if there were no disk.
  std::vector<std::string> tiny = options;
  tiny.insert(tiny.end(), {"--kv-disk-size", "1"});
  const json third = GenerateWith(LongPrompt(), tiny);
  EXPECT_EQ(third["tokens"], first["tokens"]);
  EXPECT_EQ(third["cached_tokens"], 0);
}

TEST(EngineOptions, TheDiskIsNotSharedBetweenModels) {
  const TemporaryDirectory directory;
  const std::filesystem::path model = directory.path() / "model";
  std::filesystem::copy(ProjectPath("models/fairy"), model);
  const std::vector<std::string> options = {
      "--seed", "2", "-n", "5", "--model", model, "--kv-disk", directory.path() / "disk"};
  GenerateWith(LongPrompt(), options);
  EXPECT_GT(GenerateWith(LongPrompt(), options)["cached_tokens"], 0);
  for (const auto& file : std::filesystem::directory_iterator(model)) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  EXPECT_EQ(GenerateWith(LongPrompt(), options)["cached_tokens"], 0);
}

TEST(CheckpointFingerprint, ChangesWithEveryPart) {
  const TemporaryDirectory directory;
  const std::filesystem::path weights = directory.path() / "model.safetensors";
  const auto time = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  struct Parts {
    std::string config = "{}";
    std::vector<TensorSpec> tensors = {{"a", DType::kF32, {64, 256}}, {"b", DType::kBF16, {32}}};
    std::size_t changed_byte = 0;  // from the end; 0: none
    std::chrono::seconds later{0};
  };
  const auto fingerprint = [&](const Parts& parts) {
    WriteFile(directory.path() / "config.json", parts.config);
    std::int64_t n_bytes = 0;
    for (const TensorSpec& tensor : parts.tensors) {
      n_bytes += Bytes(tensor);
    }
    std::string data(static_cast<std::size_t>(n_bytes), '\0');
    if (parts.changed_byte > 0) {
      data[data.size() - parts.changed_byte] = 'x';
    }
    WriteFile(weights, SafetensorsBytes(SafetensorsHeaderText(parts.tensors), data));
    std::filesystem::last_write_time(weights, time + parts.later);
    const auto checkpoint = Checkpoint::Open(directory.path());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    const auto found = ComputeFingerprint(*checkpoint);
    EXPECT_TRUE(found) << found.error().message;
    return *found;
  };
  const std::string plain = fingerprint({});
  EXPECT_EQ(plain.size(), 32u);
  EXPECT_EQ(fingerprint({}), plain);
  const Parts others[] = {
      {.config = "{ }"},
      {.tensors = {{"a", DType::kF32, {64, 256}}, {"c", DType::kBF16, {32}}}},
      {.tensors = {{"a", DType::kF32, {256, 64}}, {"b", DType::kBF16, {32}}}},
      {.tensors = {{"a", DType::kI32, {64, 256}}, {"b", DType::kBF16, {32}}}},
      {.changed_byte = 1},
      {.changed_byte = 65536 + 64},  // the first of the data
      {.later = std::chrono::seconds(1)},
  };
  for (const Parts& parts : others) {
    EXPECT_NE(fingerprint(parts), plain);
  }
  fingerprint({});
  std::filesystem::remove(directory.path() / "config.json");
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint);
  const auto missing = ComputeFingerprint(*checkpoint);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("config.json"));
}

TEST(DefaultKvMemory, IsWhatTheHelpSays) {
  constexpr std::int64_t kMega = std::int64_t{1} << 20;
  constexpr std::int64_t kGiga = std::int64_t{1} << 30;
  constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(DefaultKvMemory(10 * kMega, kPlenty, true), 50 * kMega);
  EXPECT_EQ(DefaultKvMemory(10 * kMega, kPlenty, false), 10 * kMega);
  EXPECT_EQ(DefaultKvMemory(4 * kGiga, kPlenty, true), 5 * kGiga);
  EXPECT_EQ(DefaultKvMemory(4 * kGiga, 6 * kGiga, true), 3 * kGiga);
  EXPECT_EQ(DefaultKvMemory(4 * kGiga, 6 * kGiga, false), 3 * kGiga);
}

}  // namespace
}  // namespace fathom::testing
