#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/fairy_copy.h"
#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// For checkpoints without one of their own.
void LinkTokenizer(const std::filesystem::path& directory) {
  std::filesystem::create_symlink(ProjectPath("models/fairy/tokenizer.json"),
                                  directory / "tokenizer.json");
}

json InspectJson(const std::filesystem::path& directory, int exit_code = 0) {
  const ProgramRun run = RunProgram({"inspect", "--json", directory});
  EXPECT_EQ(run.exit_code, exit_code) << run.error;
  return ParseOutput(run);
}

TEST(InspectTest, DescribesTheEmbeddedModel) {
  const ProgramRun run = RunProgram({"inspect", "--deep"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_THAT(run.out, AllOf(HasSubstr("6: 1 sliding window, 3 ratio 4 with indexer, 2 ratio 128"),
                             HasSubstr("2 hash-routed, 4 learned"),
                             HasSubstr("8 per layer (FP4), 2 per token"), HasSubstr("MTP"),
                             HasSubstr("596 in 9 files, 17,164,792 bytes"),
                             HasSubstr("per 1,000 tokens"), HasSubstr("problems      none")));
}

TEST(InspectTest, SaysWhichProfilePromptsHaveAndWhy) {
  const auto line = [](const std::filesystem::path& model) {
    const std::string out = RunProgram({"inspect", model}).out;
    const std::size_t at = out.find("chat format ");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_THAT(line(ProjectPath("models/fairy")),
              AllOf(HasSubstr("v4-preview (generation_config.json)"), Not(HasSubstr("guess"))));
  const FairyCopy copy;
  json generation = json::parse(ReadFile(copy.path() / "generation_config.json"));
  generation.erase("prompt_profile");
  WriteFile(copy.Own("generation_config.json"), generation.dump());
  EXPECT_THAT(line(copy.path()),
              HasSubstr("v4-preview, a guess (nothing says it); choose with --prompt-profile"));
  // The start says it where no level of the log is asked for, and is silent once it is chosen.
  const std::string model = copy.path();
  EXPECT_THAT(RunProgram({"chat", model, "-n", "1"}, {.standard_input = "Hi\n"}).error,
              HasSubstr(model + ": nothing says which chat format it was trained on; assuming "
                                "v4-preview, choose with --prompt-profile"));
  EXPECT_THAT(RunProgram({"chat", model, "-n", "1", "--prompt-profile", "v4-0731"},
                         {.standard_input = "Hi\n"})
                  .error,
              Not(HasSubstr("chat format")));
}

TEST(InspectTest, SaysThatImagesAreNotRead) {
  const FairyCopy copy;
  const std::string header = R"({"vision.a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("aligner.b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  std::string shard(sizeof(std::uint64_t), '\0');
  const std::uint64_t header_bytes = header.size();
  std::memcpy(shard.data(), &header_bytes, sizeof(header_bytes));
  WriteFile(copy.path() / "vision.safetensors", shard + header + std::string(12, '\0'));
  json index = json::parse(ReadFile(copy.path() / "model.safetensors.index.json"));
  index["weight_map"]["vision.a"] = "vision.safetensors";
  index["weight_map"]["aligner.b"] = "vision.safetensors";
  index["metadata"]["total_size"] = index["metadata"]["total_size"].get<int>() + 12;
  WriteFile(copy.Own("model.safetensors.index.json"), index.dump());
  const ProgramRun run = RunProgram({"inspect", copy.path()});
  EXPECT_EQ(run.exit_code, 0) << run.error << run.out;
  EXPECT_THAT(run.out, HasSubstr("the 2 tensors of its vision part (12 bytes) are not used"));
  EXPECT_THAT(RunProgram({"inspect"}).out, Not(HasSubstr("vision")));
}

TEST(InspectTest, JsonHasTheSameNumbers) {
  const json object = InspectJson(ProjectPath("models/fairy"));
  EXPECT_EQ(object["ok"], true);
  EXPECT_EQ(object["tensors"], 596);
  EXPECT_EQ(object["bytes"], 17164792);
  EXPECT_EQ(object["dtypes"]["I64"], json({{"tensors", 2}, {"bytes", 131072}}));
  EXPECT_EQ(object["layers"]["ratio_4"], 3);
  EXPECT_EQ(object["draft_head"]["kind"], "MTP");
  // 3 layers of ratio 4: (200 + 68) / 4 bytes per token; 2 of ratio 128: 200 / 128.
  EXPECT_EQ(object["memory"]["kv_bytes_per_1000_tokens"], 1000 * 3 * 67 + 2 * 1000 * 200 / 128);
}

// Full size, of zeros that take no disk.
TEST(InspectTest, PlansTheMemoryOfAHostAsPlanDoes) {
  const auto config = SharedData("data/tokenizer/config.DeepSeek-V4-Flash.json");
  if (!config) GTEST_SKIP() << kNoSharedData;
  const TemporaryDirectory directory;
  WriteSparseCheckpoint(directory.path(), ReadFile(*config), {});
  LinkTokenizer(directory.path());
  const std::vector<std::string> memory = {"--memory", "16G", "--disk-gb-s", "2.5"};
  const auto with_memory = [&](std::vector<std::string> words) {
    words.insert(words.end(), memory.begin(), memory.end());
    return RunProgram(words);
  };
  const ProgramRun text = with_memory({"inspect", directory.path()});
  EXPECT_EQ(text.exit_code, 0) << text.error;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("17.180 GB of memory: "), HasSubstr(" of 11008 experts ("),
                    HasSubstr(" tokens/s (disk 2.5 GB/s, memory 40 GB/s, assumed)\n"),
                    HasSubstr("a server takes up to 1.074 GB more for forms of answers")));
  json host = ParseOutput(with_memory({"inspect", "--json", directory.path()}))["memory"]["host"];
  json plan =
      ParseOutput(with_memory({"plan", "--format", "json", "--model", directory.path()}))["host"];
  EXPECT_GT(host["slots"], 400);
  EXPECT_LT(host["slots"], 800);
  // Known from the places in the files; else the most that there can be.
  EXPECT_NEAR(host["slot_bytes"].get<double>(), plan["slot_bytes"].get<double>(), 2 * 4096);
  EXPECT_NEAR(host["slots"].get<double>(), plan["slots"].get<double>(), 1);
  for (const char* name :
       {"slot_bytes", "slots", "hit_rate", "read_bytes_per_token", "tokens_per_s"}) {
    host.erase(name);
    plan.erase(name);
  }
  EXPECT_EQ(host, plan);
}

// Returns the lines that say what a rank or all ranks have, without what goes before, and without
// the speeds, which a run measures.
std::vector<std::string> PlanLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(" GB read per token") == std::string::npos) continue;
    const std::size_t begin = std::min(line.find("rank "), line.find("all 2 ranks: "));
    if (begin == std::string::npos) continue;
    lines.push_back(line.substr(begin, line.find(" GB read per token") - begin));
  }
  std::ranges::sort(lines);
  return lines;
}

TEST(InspectTest, PlansRanksAsTheirStartDoes) {
  for (const std::vector<std::string>& division : {std::vector<std::string>(), {"--pp", "2"}}) {
    std::vector<std::string> inspect = {"inspect", "--memory", "26M", "--ranks", "2"};
    std::vector<std::string> plan = {"plan", "--memory", "26M", "--ranks", "2"};
    std::vector<std::string> run = {"launch",       "-n",   "2",        "generate",
                                    "--context",    "8192", "--memory", "26M",
                                    "--max-tokens", "1",    "Once upon"};
    inspect.insert(inspect.end(), division.begin(), division.end());
    plan.insert(plan.end(), division.begin(), division.end());
    run.insert(run.end(), division.begin(), division.end());
    const ProgramRun planned = RunProgram(inspect);
    const ProgramRun started = RunProgram(run);
    EXPECT_EQ(started.exit_code, 0) << started.error;
    EXPECT_EQ(PlanLines(planned.out).size(), 3u) << planned.out;
    EXPECT_EQ(PlanLines(planned.out), PlanLines(started.error));
    EXPECT_EQ(PlanLines(RunProgram(plan).out), PlanLines(started.error));
  }
}

TEST(InspectTest, AHostThatIsTooSmallIsAProblem) {
  const ProgramRun run = RunProgram({"inspect", "--memory", "10M"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("memory of the host: expected at least "));
  EXPECT_THAT(RunProgram({"inspect", "--memory", "1M"}).out,
              HasSubstr("memory of the host for caches: expected at least "));
  EXPECT_THAT(RunProgram({"inspect", "--memory", "1G"}).out, HasSubstr("all of it fits"));
}

TEST(InspectTest, OracleCheckpointsHaveNoProblems) {
  for (const char* name : {"flash-mini", "pro-mini", "base-mini"}) {
    const auto path = SharedData(std::string("oracle/") + name);
    if (!path) GTEST_SKIP() << kNoSharedData;
    const TemporaryDirectory directory;
    LinkFiles(*path, directory.path());
    LinkTokenizer(directory.path());
    const json object = InspectJson(directory.path());
    EXPECT_EQ(object["problems"], json::array()) << name;
    EXPECT_EQ(object["draft_head"]["kind"], "MTP");
    EXPECT_GT(object["experts"][std::string(name) == "base-mini" ? "fp8" : "fp4"], 0);
  }
}

struct FullSize {
  const char* name;
  const char* config;
  NativeHead head;
  int n_stages;
  std::int64_t n_tensors;
  std::int64_t bytes;
};

class FullSizeTest : public ::testing::TestWithParam<FullSize> {};

TEST_P(FullSizeTest, CountsMatchThePublishedOnes) {
  const auto config = SharedData(std::string("data/tokenizer/") + GetParam().config);
  if (!config) GTEST_SKIP() << kNoSharedData;
  const TemporaryDirectory directory;
  WriteSparseCheckpoint(directory.path(), ReadFile(*config),
                        {.head = GetParam().head, .n_draft_stages = GetParam().n_stages});
  LinkTokenizer(directory.path());
  const auto start = std::chrono::steady_clock::now();
  const json object = InspectJson(directory.path());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_EQ(object["tensors"], GetParam().n_tensors);
  EXPECT_EQ(object["bytes"], GetParam().bytes);
  EXPECT_EQ(object["problems"], json::array());
  EXPECT_EQ(object["draft_head"]["stages"], GetParam().n_stages);
}

INSTANTIATE_TEST_SUITE_P(Published, FullSizeTest,
                         ::testing::Values(FullSize{"flash", "config.DeepSeek-V4-Flash.json",
                                                    NativeHead::kMtp, 1, 69187, 159609485896},
                                           FullSize{"flash_0731",
                                                    "config.DeepSeek-V4-Flash-0731.json",
                                                    NativeHead::kDSpark, 3, 72317, 166878536440},
                                           FullSize{"pro", "config.DeepSeek-V4-Pro.json",
                                                    NativeHead::kMtp, 1, 145116, 864704792696}),
                         [](const auto& size) { return size.param.name; });

TEST(InspectTest, ListsEverythingThatIsWrong) {
  const FairyCopy copy;
  std::filesystem::remove(copy.path() / "model-00003-of-00009.safetensors");
  const std::filesystem::path cut = copy.Own("model-00005-of-00009.safetensors");
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 1000);
  const ProgramRun run = RunProgram({"inspect", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("model-00003-of-00009.safetensors"),
                             HasSubstr("model-00005-of-00009.safetensors"),
                             HasSubstr("90 tensors could not be read"), Not(HasSubstr("missing"))));
  EXPECT_THAT(run.error, HasSubstr("problems\n"));
  const json object = InspectJson(copy.path(), 1);
  EXPECT_EQ(object["ok"], false);
  EXPECT_EQ(object["problems"].size(), 3u) << "of two files, and their tensors in one";
}

TEST(InspectTest, BrokenConfigurationIsNamedWithTheRest) {
  const FairyCopy copy;
  json config = json::parse(ReadFile(copy.path() / "config.json"));
  config["hidden_size"] = -256;
  WriteFile(copy.Own("config.json"), config.dump());
  const json object = InspectJson(copy.path(), 1);
  ASSERT_EQ(object["problems"].size(), 1u);
  EXPECT_EQ(object["problems"][0]["kind"], "config.json");
  EXPECT_THAT(object["problems"][0]["message"].get<std::string>(), HasSubstr("hidden_size"));
  EXPECT_EQ(object["tensors"], 596);
}

// The first byte of this tensor becomes `value`.
std::string WithByte(std::string shard, const std::string& tensor, char value) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, shard.data(), sizeof(header_bytes));
  const json header = json::parse(shard.substr(8, header_bytes));
  shard[8 + header_bytes + header[tensor]["data_offsets"][0].get<std::size_t>()] = value;
  return shard;
}

TEST(InspectTest, DeepReadsScales) {
  const FairyCopy copy;
  const std::string broken = "layers.0.ffn.experts.0.w1.scale";
  const std::filesystem::path shard = copy.Own("model-00002-of-00009.safetensors");
  WriteFile(shard, WithByte(ReadFile(shard), broken, '\xFF'));
  const int exit_code = RunProgram({"inspect", copy.path()}).exit_code;
  EXPECT_EQ(exit_code, 0) << "other commands read it when the expert is first used";
  const ProgramRun run = RunProgram({"inspect", "--deep", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr(broken), HasSubstr("255")));
}

// A damaged file, and the part of the message that names the damage.
struct Damage {
  const char* file;
  std::function<std::string(std::string)> edit;  // empty: the file is removed
  const char* named;
};

std::string WithField(const std::string& text, const char* key, const json& value) {
  json object = json::parse(text);
  object[key] = value;
  return object.dump();
}

TEST(InspectTest, RefusesWhatGenerateRefuses) {
  const std::vector<Damage> damages = {
      {"tokenizer.json", {}, "tokenizer.json: cannot open"},
      {"tokenizer.json", [](const std::string&) { return "{}"; }, "tokenizer.json"},
      {"tokenizer.json", [](const std::string& text) { return text.substr(0, 1000); },
       "tokenizer.json"},
      {"generation_config.json", [](const std::string&) { return "[]"; }, "generation_config.json"},
      {"generation_config.json",
       [](const std::string& text) { return WithField(text, "temperature", -1); }, "temperature"},
      {"generation_config.json",
       [](const std::string& text) { return WithField(text, "eos_token_id", 4096); },
       "eos_token_id: expected tokens below the vocab_size 4096"},
      {"config.json", {}, "config.json"},
      {"config.json", [](const std::string& text) { return WithField(text, "hidden_size", 128); },
       "expected"},
      {"model-00002-of-00009.safetensors",
       [](const std::string& shard) { return WithByte(shard, "layers.0.attn.wkv.scale", '\xFF'); },
       "layers.0.attn.wkv.scale: expected finite scales"},
      {"model-00002-of-00009.safetensors",
       [](const std::string& shard) { return WithByte(shard, "layers.0.ffn.gate.tid2eid", 99); },
       "layers.0.ffn.gate.tid2eid: expected expert ids 0 to 7, found 99"},
      {"model-00004-of-00009.safetensors", [](const std::string&) { return ""; },
       "model-00004-of-00009.safetensors"},
      {"model.safetensors.index.json", [](const std::string&) { return "{}"; },
       "model.safetensors.index.json"},
  };
  for (const Damage& damage : damages) {
    const FairyCopy copy;
    const std::filesystem::path file = copy.Own(damage.file);
    if (damage.edit) {
      WriteFile(file, damage.edit(ReadFile(file)));
    } else {
      std::filesystem::remove(file);
    }
    const ProgramRun refused =
        RunProgram({"generate", "--model", copy.path(), "Once", "-n", "1", "--threads", "1"});
    ExpectRefusal(refused, 1, damage.named);
    const ProgramRun run = RunProgram({"inspect", copy.path()});
    EXPECT_EQ(run.exit_code, 1) << damage.file;
    EXPECT_THAT(run.out, HasSubstr(damage.named));
    EXPECT_EQ(InspectJson(copy.path(), 1)["ok"], false);
  }
}

TEST(InspectTest, EmptyAndMissingDirectories) {
  const TemporaryDirectory directory;
  const ProgramRun empty = RunProgram({"inspect", directory.path()});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_THAT(empty.error, HasSubstr("2 problems"));  // no tensors, no config.json
  EXPECT_THAT(empty.out, AllOf(HasSubstr("config.json"), HasSubstr("safetensors")));
  ExpectRefusal(RunProgram({"inspect", directory.path() / "x"}), 1, "no such model directory");
}

TEST(InspectTest, RefusesTheNextGenerationByName) {
  const FairyCopy copy;
  json config = json::parse(ReadFile(copy.path() / "config.json"));
  config["model_type"] = "deepseek_v41";
  WriteFile(copy.Own("config.json"), config.dump());
  const ProgramRun run = RunProgram({"inspect", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("deepseek_v41"));
}

}  // namespace
}  // namespace fathom::testing
