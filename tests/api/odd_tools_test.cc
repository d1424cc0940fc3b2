// Lists of tools and choices as clients send them, with the compiler of constraints: reports 17 to
// 20. docs/spec/constrained.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "constraint/constraint.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"
#include "tests/api/read_answers.h"

namespace fathom::api {
namespace {

using testing::AnswerWords;
using ::testing::HasSubstr;

class OddToolsTest : public testing::ApiModelTest,
                     public ::testing::WithParamInterface<AnswerWords> {
 protected:
  OddToolsTest()
      : compiler_of_model_(std::make_shared<ConstraintVocabulary>(
            tokenizer_, tokenizer_.vocab_size(), std::vector<Token>{1})) {
    model_.limits.max_context = 8192;
    model_.compile_constraint = [this](const ConstraintSpec& spec, const Caller&) {
      return compiler_of_model_.Compile(spec);
    };
  }

  static const Api* api() { return GetParam().api; }

  // A tool whose name and schema are JSON.
  static std::string Tool(std::string_view name, std::string_view schema,
                          std::string_view more = "") {
    if (api() == &kMessages) {
      return fmt::format(R"({{"name": {}, "input_schema": {}{}}})", name, schema, more);
    }
    const std::string flat = fmt::format(R"("name": {}, "parameters": {}{}}})", name, schema, more);
    return api() == &kResponses ? R"({"type": "function", )" + flat
                                : R"({"type": "function", "function": {)" + flat + "}";
  }
  static std::string Required() {
    return api() == &kMessages ? R"({"type": "any"})" : R"("required")";
  }
  static std::string Named(std::string_view name) {
    if (api() == &kMessages) return fmt::format(R"({{"type": "tool", "name": {}}})", name);
    if (api() == &kResponses) return fmt::format(R"({{"type": "function", "name": {}}})", name);
    return fmt::format(R"({{"type": "function", "function": {{"name": {}}}}})", name);
  }

  ApiResult<ApiCall> Send(const std::string& fields) const {
    return api()->prepare(
        (api() == &kResponses ? R"({"input": "Hi")"
                              : R"({"messages": [{"role": "user", "content": "Hi"}])") +
            (fields.empty() ? "" : ", " + fields) + "}",
        model_);
  }
  std::string ErrorFrom(const std::string& fields) const {
    const ApiResult<ApiCall> call = Send(fields);
    return call ? "accepted" : call.error().message;
  }

  ConstraintCompiler compiler_of_model_;
};

// An empty list is no list, and what needs a tool says so.
TEST_P(OddToolsTest, NoTools) {
  const bool is_messages = api() == &kMessages;
  const std::pair<std::string, bool> choices[] = {
      {"", true},
      {R"("tool_choice": null)", true},
      {is_messages ? R"("tool_choice": {"type": "none"})" : R"("tool_choice": "none")", true},
      {is_messages ? R"("tool_choice": {"type": "auto"})" : R"("tool_choice": "auto")", true},
      {"\"tool_choice\": " + Required(), false},
      {"\"tool_choice\": " + Named("\"x\""), false}};
  for (const char* tools : {"", R"("tools": null)", R"("tools": [])"}) {
    for (const auto& [choice, is_accepted] : choices) {
      for (const char* parallel :
           {"", R"("parallel_tool_calls": null)", R"("parallel_tool_calls": true)"}) {
        for (const char* stream : {R"("stream": false)", R"("stream": true)"}) {
          std::string fields = stream;
          for (const std::string& more : {std::string(tools), choice, std::string(parallel)}) {
            if (!more.empty()) fields += ", " + more;
          }
          const std::string error = ErrorFrom(fields);
          EXPECT_EQ(error == "accepted", is_accepted) << fields << ": " << error;
          EXPECT_TRUE(is_accepted || error.starts_with("tool_choice")) << error;
        }
      }
    }
  }
}

// Clients in Java and Go write null for what is empty.
TEST_P(OddToolsTest, NullKeywords) {
  struct Keyword {
    std::string_view schema;
    std::string_view name;  // "": null is no keyword that holds
  };
  for (const Keyword& keyword : {
           Keyword{R"({"type": "object", "properties": null, "required": null})", "properties"},
           Keyword{R"({"type": "object", "properties": {"a": {"type": "array", "items": null}}})",
                   "items"},
           Keyword{R"({"type": "object", "properties": {"a": {"enum": null}}})", "enum"},
           Keyword{R"({"type": "object", "description": null,
                       "properties": {"a": {"type": "string", "description": null}}})",
                   ""},
       }) {
    const std::string tools = R"("tools": [)" + Tool("\"f\"", keyword.schema) + "]";
    EXPECT_EQ(ErrorFrom(tools), "accepted") << keyword.schema;
    EXPECT_EQ(ErrorFrom(tools + R"(, "tool_choice": )" + Required()), "accepted") << keyword.schema;
    const std::string flat =
        fmt::format(R"({{"type": "json_schema", "name": "n", "schema": {}}})", keyword.schema);
    std::string format = R"("response_format": )" + flat;
    if (api() == &kResponses) format = R"("text": {"format": )" + flat + "}";
    if (api() == &kMessages) format = R"("output_config": {"format": )" + flat + "}";
    for (const std::string& enforced :
         {R"("tools": [)" + Tool("\"f\"", keyword.schema, R"(, "strict": true)") + "]", format}) {
      EXPECT_THAT(ErrorFrom(enforced), HasSubstr(keyword.name.empty() ? "accepted" : keyword.name))
          << enforced;
    }
  }
}

// Odd names come back byte for byte, and no keyword ends the session.
TEST_P(OddToolsTest, AListOfAnAgent) {
  const std::vector<std::string> names = {"mcp__plugin_" + std::string(118, 'x'), "a.b/c:d",
                                          "名前"};
  const char* schemas[] = {
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "\\d{4}-\\d{2}"}}})",
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!/).+$"}}})",
      R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
          "properties": {"a": {"type": "string", "format": "uri"}}, "additionalProperties": {}})",
      R"({"type": "object", "propertyNames": {"type": "string"}, "properties": {
          "a": {"anyOf": [{"const": "x"}, {"anyOf": [{"const": 1}, {"type": "null"}]}]}}})"};
  std::string list;
  for (std::size_t i = 0; i < 26; ++i) {
    const std::string name = i < names.size() ? names[i] : fmt::format("tool_{}", i);
    list += (i == 0 ? "" : ", ") + Tool('"' + name + '"', schemas[i % 4]);
  }
  const std::string tools = R"("thinking": false, "tools": [)" + list + "]";
  for (const std::string& choice : {std::string(), ", \"tool_choice\": " + Required(),
                                    ", \"tool_choice\": " + Named("\"名前\"")}) {
    for (const ToolGrammar grammar : {ToolGrammar::kAuto, ToolGrammar::kStrict}) {
      model_.defaults.tool_grammar = grammar;
      EXPECT_EQ(ErrorFrom(tools + choice), "accepted") << choice;
    }
  }
  const ApiResult<ApiCall> call = Send(tools);
  ASSERT_TRUE(call);
  std::string text = "\n\n<｜DSML｜tool_calls>\n";
  for (const std::string& name : names) {
    text += "<｜DSML｜invoke name=\"" + name + "\">\n\n</｜DSML｜invoke>\n";
  }
  const testing::ToldAnswer told =
      testing::Tell(*call, model_, Events(text + "</｜DSML｜tool_calls>", FinishReason::kStop));
  for (const testing::ReadAnswer& answer :
       {testing::ReadToldWhole(api(), told.whole), testing::ReadToldStream(api(), told.stream)}) {
    ASSERT_EQ(answer.calls.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(answer.calls[i].name, names[i]);
  }
}

// A client cuts a text in the middle of a character: half of a pair of UTF-16 is U+FFFD.
TEST_P(OddToolsTest, LoneSurrogates) {
  const std::string half = R"(\ud83d)";
  const std::string schema =
      R"({"type": "object", "properties": {"p)" + half + R"(": {"type": "string"}}})";
  const ApiResult<ApiCall> call = Send(
      R"("tools": [)" + Tool("\"f" + half + '"', schema, R"(, "description": "d)" + half + '"') +
      R"(], "metadata": {"user_id": ")" + half + R"("}, ")" +
      (api() == &kMessages ? "stop_sequences" : "stop") + R"(": ["s)" + half + "\"]");
  ASSERT_TRUE(call) << call.error().message;
  const std::string prompt = *tokenizer_.Decode(call->requests[0].prompt);
  EXPECT_TRUE(IsValidUtf8(prompt));
  EXPECT_THAT(prompt, HasSubstr("\"name\": \"f\uFFFD\", \"description\": \"d\uFFFD\""));
  EXPECT_THAT(prompt, HasSubstr("\"p\uFFFD\""));
  const std::string text =
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\uFFFD\">\n\n"
      "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  const testing::ToldAnswer told = testing::Tell(*call, model_, Events(text, FinishReason::kStop));
  EXPECT_TRUE(IsValidUtf8(told.stream));
  ASSERT_EQ(testing::ReadToldStream(api(), told.stream).calls.size(), 1U) << told.stream;
  EXPECT_EQ(testing::ReadToldStream(api(), told.stream).calls[0].name, "f\uFFFD");
}

INSTANTIATE_TEST_SUITE_P(Apis, OddToolsTest,
                         ::testing::Values(testing::kChatWords, testing::kResponsesWords,
                                           testing::kMessagesWords),
                         [](const auto& words) { return words.param.name; });

}  // namespace
}  // namespace fathom::api
