// --schema, --regex, --grammar: answers of a form, and what is said of forms that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class AnswerForm : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string GenerateText(std::vector<std::string> options) {
    options.insert(options.begin(), {"generate", "Once upon a time", "--json"});
    const ProgramRun run = RunProgram(options);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    const json object = ParseOutput(run);
    EXPECT_EQ(object["finish_reason"], "stop") << object;
    return object["text"];
  }

  const TemporaryDirectory directory_;
};

TEST_F(AnswerForm, FollowsASchema) {
  const std::string schema = Write("schema.json", R"({
      "type": "object", "required": ["name", "age"], "additionalProperties": false,
      "x-fathom": {"whitespace": "compact"},
      "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 20},
                     "age": {"type": "integer", "minimum": 5, "maximum": 120}}})");
  for (const char* draft : {"off", "1"}) {
    for (int seed = 0; seed < 6; ++seed) {
      const json answer =
          json::parse(GenerateText({"--schema", schema, "--temperature", "1.5", "--seed",
                                    std::to_string(seed), "--draft", draft, "-n", "200"}));
      EXPECT_EQ(answer.size(), 2u);
      EXPECT_GE(answer["age"], 5);
      EXPECT_LE(answer["age"], 120);
      EXPECT_GE(answer["name"].get<std::string>().size(), 3u);
    }
  }
}

TEST_F(AnswerForm, FollowsAnExpression) {
  const std::string expression = "(yes|no), [a-z]{3,8}!";
  for (int seed = 0; seed < 6; ++seed) {
    const std::string text = GenerateText({"--regex", expression, "--seed", std::to_string(seed)});
    EXPECT_TRUE(std::regex_match(text, std::regex(expression))) << text;
  }
}

TEST_F(AnswerForm, FollowsAGrammar) {
  const std::string grammar =
      Write("grammar.gbnf", "root ::= \"The \" [a-z]{2,9} \" \" (\"sat\" | \"ran\") \".\"\n");
  for (int seed = 0; seed < 6; ++seed) {
    const std::string text = GenerateText({"--grammar", grammar, "--seed", std::to_string(seed)});
    EXPECT_TRUE(std::regex_match(text, std::regex("The [a-z]{2,9} (sat|ran)\\."))) << text;
  }
}

TEST_F(AnswerForm, HoldsForEveryAnswerOfAChat) {
  const ProgramRun run = RunProgram({"chat", "--regex", "[A-Z][a-z ]{3,20}\\.", "--seed", "4"},
                                    {.standard_input = "Tell me of a king.\nAnd of a queen.\n"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_TRUE(std::regex_match(run.out, std::regex("([A-Z][a-z ]{3,20}\\.\n){2}"))) << run.out;
}

TEST_F(AnswerForm, HoldsForRequestsOfABatchThatAskForNone) {
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    json body = {{"prompt", "Once upon a time"}, {"seed", i}, {"max_tokens", 30}};
    if (i == 3) body["guided_choice"] = {"maybe"};
    lines += json({{"custom_id", std::to_string(i)},
                   {"method", "POST"},
                   {"url", "/v1/completions"},
                   {"body", body}})
                 .dump() +
             "\n";
  }
  const ProgramRun run =
      RunProgram({"batch", Write("in.jsonl", lines), "-", "--regex", "(yes|no), [a-z]{3,8}!"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  std::istringstream answers(run.out);
  int n_answers = 0;
  for (std::string line; std::getline(answers, line); ++n_answers) {
    const json answer = json::parse(line);
    const std::string text = answer["response"]["body"]["choices"][0]["text"];
    const char* form = answer["custom_id"] == "3" ? "maybe" : "(yes|no), [a-z]{3,8}!";
    EXPECT_TRUE(std::regex_match(text, std::regex(form))) << line;
  }
  EXPECT_EQ(n_answers, 4);
}

// Tokens do not depend on drafts.
TEST_F(AnswerForm, IsTheSameWithDrafts) {
  const std::string schema = Write("schema.json", R"({
      "type": "object", "required": ["story", "words"], "additionalProperties": false,
      "properties": {"story": {"type": "string", "minLength": 80, "maxLength": 200},
                     "words": {"type": "array", "items": {"type": "string", "maxLength": 9}}}})");
  for (const char* temperature : {"0", "1"}) {
    const auto answer = [&](const char* draft) {
      return ParseOutput(
          RunProgram({"generate", "Once", "--json", "--schema", schema, "--seed", "7",
                      "--temperature", temperature, "-n", "90", "--draft", draft}));
    };
    const json alone = answer("off")["tokens"];
    EXPECT_EQ(answer("auto")["tokens"], alone);
    for (const char* draft : {"1", "2", "3", "4"}) {
      EXPECT_EQ(answer(draft)["tokens"], alone) << draft << " at " << temperature;
    }
  }
}

TEST_F(AnswerForm, SaysWhatIsWrong) {
  const auto refuse = [](const std::vector<std::string>& form, int exit_code,
                         const std::string& message) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"generate", "Once"}, {"chat"}, {"batch", "/dev/null", "-"}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), form.begin(), form.end());
      ExpectRefusal(RunProgram(words), exit_code, message);
    }
  };
  refuse({"--schema", "/nowhere/schema.json"}, 1, "--schema: /nowhere/schema.json: ");
  refuse({"--grammar", "/nowhere/g.gbnf"}, 1, "--grammar: /nowhere/g.gbnf: ");
  refuse({"--schema", Write("broken.json", "{\"type\": ")}, 1, "broken.json: ");
  refuse({"--schema", Write("type.json", "{\"type\": \"strin\"}")}, 1, "(invalid_schema)");
  refuse({"--schema", Write("none.json", "false")}, 1, "(unsatisfiable_schema)");
  refuse({"--regex", "(a"}, 1, "--regex: ");
  refuse({"--grammar", Write("open.gbnf", "root ::= (\"a\"")}, 1, "(invalid_grammar)");
  refuse({"--regex", "a", "--grammar", "g"}, 2, "--grammar");
}

}  // namespace
}  // namespace fathom::testing
