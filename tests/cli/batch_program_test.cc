// batch as a user runs it, with the embedded model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kRequests = 12;

std::string MakePrompt(int i) {
  return "Once upon a time there was a king who had " + std::to_string(i) + " daughters,";
}

std::string Requests() {
  std::string lines;
  for (int i = 0; i < kRequests; ++i) {
    const json body = {
        {"model", "fairy"}, {"prompt", MakePrompt(i)}, {"seed", i}, {"max_tokens", 20}};
    lines += json({{"custom_id", std::to_string(i)},
                   {"method", "POST"},
                   {"url", "/v1/completions"},
                   {"body", body}})
                 .dump() +
             "\n";
  }
  return lines;
}

// custom_id -> text
std::map<std::string, std::string> Answers(const std::filesystem::path& file) {
  std::map<std::string, std::string> texts;
  std::istringstream lines(ReadFile(file));
  for (std::string line; std::getline(lines, line);) {
    const json answer = json::parse(line, nullptr, false);
    EXPECT_EQ(answer["response"]["status_code"], 200) << line;
    texts[answer["custom_id"]] = answer["response"]["body"]["choices"][0]["text"];
  }
  return texts;
}

TEST(BatchProgramTest, AnswersAreThoseOfGenerate) {
  const TemporaryDirectory directory;
  const std::filesystem::path in = directory.path() / "in.jsonl";
  const std::filesystem::path out = directory.path() / "out.jsonl";
  WriteFile(in, "\xEF\xBB\xBF" + Requests());  // as some editors write it
  const ProgramRun run = RunProgram({"batch", in, out, "--max-sequences", "5", "--pin", "on"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.error, HasSubstr("12 of 12 requests, 0 errors"));
  const auto answers = Answers(out);
  ASSERT_EQ(answers.size(), static_cast<std::size_t>(kRequests));
  for (const int i : {0, 7}) {
    const json alone = ParseOutput(
        RunProgram({"generate", MakePrompt(i), "--seed", std::to_string(i), "-n", "20", "--json"}));
    EXPECT_EQ(answers.at(std::to_string(i)), alone["text"]);
  }
  const std::string before = ReadFile(out);
  EXPECT_EQ(RunProgram({"batch", in, out}).exit_code, 0);
  EXPECT_EQ(ReadFile(out), before) << "nothing was left to answer";
}

TEST(BatchProgramTest, AnswersOfRanksAreThoseOfOne) {
  const TemporaryDirectory directory;
  const std::filesystem::path in = directory.path() / "in.jsonl";
  WriteFile(in, Requests());
  const auto answers = [&](std::vector<std::string> words, const char* name,
                           const std::vector<std::string>& options = {}) {
    const std::filesystem::path out = directory.path() / name;
    words.insert(words.end(), {"batch", in, out, "--threads", "1"});
    words.insert(words.end(), options.begin(), options.end());
    const ProgramRun run = RunProgram(words);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return Answers(out);
  };
  const std::map<std::string, std::string> alone = answers({}, "alone");
  EXPECT_EQ(alone.size(), std::size_t{kRequests});
  EXPECT_EQ(answers({"launch", "-n", "2"}, "ranks"), alone);
  EXPECT_EQ(answers({"launch", "-n", "2"}, "data_ranks", {"--dp-attention"}), alone);
}

}  // namespace
}  // namespace fathom::testing
