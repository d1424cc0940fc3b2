// Answers of a form, with the compiler of constraints in place of a fake one: what the model may
// write, how the answer ends, and how each API tells it, whole and as a stream.
// docs/spec/constrained.md 1.4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/literals.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"
#include "tests/api/read_answers.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;
using testing::ReadAnswer;
using Json = nlohmann::ordered_json;

constexpr Token kEnd = 1;

class ConstrainedAnswersTest : public testing::ApiModelTest,
                               public ::testing::WithParamInterface<testing::AnswerWords> {
 protected:
  ConstrainedAnswersTest() {
    model_.limits.max_context = 8192;
    const std::vector<Token> ends = {kEnd};
    compiler = std::make_shared<ConstraintCompiler>(
        std::make_shared<ConstraintVocabulary>(tokenizer_, tokenizer_.vocab_size(), ends));
    model_.compile_constraint = [this](const ConstraintSpec& spec, const Caller&) {
      return compiler->Compile(spec);
    };
  }

  static bool IsChat() { return GetParam().api != &kCompletions; }

  // Without reasoning, which completions do not have.
  static std::string MakeBody(const std::string& fields) {
    const Api* api = GetParam().api;
    std::string start = R"({"prompt": "Hi", )";
    if (api == &kChatCompletions) {
      start = R"({"messages": [{"role": "user", "content": "Hi"}], "enable_thinking": false, )";
    } else if (api == &kMessages) {
      start = R"({"messages": [{"role": "user", "content": "Hi"}],
          "thinking": {"type": "disabled"}, )";
    } else if (api == &kResponses) {
      start = R"({"input": "Hi", "reasoning": {"effort": "none"}, )";
    }
    return start + fields + "}";
  }
  static std::string SchemaField(const std::string& schema) {
    const Api* api = GetParam().api;
    const std::string flat =
        R"({"type": "json_schema", "name": "n", "strict": true, "schema": )" + schema + "}";
    if (api == &kResponses) return R"("text": {"format": )" + flat + "}";
    if (api == &kMessages) return R"("output_config": {"format": )" + flat + "}";
    return R"("response_format": {"type": "json_schema", "json_schema": )" + flat + "}";
  }
  static std::string ToolField(bool is_required) {
    const Api* api = GetParam().api;
    const std::string schema = R"({"type": "object", "properties": {"days": {"type": "integer"}},
        "required": ["days"]})";
    std::string tool =
        R"({"type": "function", "name": "f", "strict": true, "parameters": )" + schema + "}";
    if (api == &kChatCompletions) tool = R"({"type": "function", "function": )" + tool + "}";
    if (api == &kMessages) {
      tool = R"({"name": "f", "strict": true, "input_schema": )" + schema + "}";
    }
    const std::string choice = api == &kMessages ? R"({"type": "any"})" : R"("required")";
    return R"("tools": [)" + tool + "]" + (is_required ? R"(, "tool_choice": )" + choice : "");
  }

  ApiCall Prepare(const std::string& fields) const {
    const ApiResult<ApiCall> call = GetParam().api->prepare(MakeBody(fields), model_);
    EXPECT_TRUE(call) << (call ? "" : call.error().message);
    return call ? *call : ApiCall();
  }

  // The state behind a text that the model writes; none if it may not write it.
  static std::optional<ConstraintState> Behind(const Constraint& constraint,
                                               const std::vector<Token>& tokens) {
    ConstraintState state = constraint.Begin();
    for (const Token token : tokens) {
      Result<ConstraintState> next = constraint.Advance(state, token);
      EXPECT_EQ(next.has_value(), constraint.Mask(state)->Allows(token)) << token;
      if (!next) return std::nullopt;
      state = *std::move(next);
    }
    return state;
  }
  std::optional<ConstraintState> Behind(const ApiCall& call, std::string_view text) const {
    return Behind(*call.requests[0].sampling.constraint, Tokens(text));
  }

  // Tells an answer of this text both ways; they are the same.
  ReadAnswer Answer(const ApiCall& call, std::string_view text, FinishReason finish) const {
    std::vector<StreamEvent> events = Events(text, finish);
    if (finish == FinishReason::kStopString) events.back().stop_string = 0;
    const testing::ToldAnswer told = testing::Tell(call, model_, events);
    const ReadAnswer whole = testing::ReadToldWhole(GetParam().api, told.whole);
    const ReadAnswer streamed = testing::ReadToldStream(GetParam().api, told.stream);
    const std::string arguments = streamed.FirstArguments();
    EXPECT_EQ(streamed.content, whole.content) << told.stream;
    const Json object = Json::parse(arguments, nullptr, false);
    if (object.is_object() && !whole.calls.empty()) {
      EXPECT_EQ(object, Json::parse(whole.FirstArguments(), nullptr, false));
    } else if (GetParam().api != &kMessages) {  // whose input must be an object
      EXPECT_EQ(arguments, whole.FirstArguments());
    }
    EXPECT_EQ(streamed.finish, whole.finish) << told.stream;
    if (GetParam().api == &kChatCompletions) {
      const Json& message = told.whole["choices"][0]["message"];
      EXPECT_TRUE(message.contains("refusal") && message["refusal"].is_null()) << "never";
    }
    return whole;
  }

  std::shared_ptr<ConstraintCompiler> compiler;
};

constexpr const char* kYes = R"({"type": "object", "properties": {"yes": {"type": "boolean"}},
    "required": ["yes"], "additionalProperties": false})";

constexpr std::string_view kCallText =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"days\" string=\"false\">7</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST_P(ConstrainedAnswersTest, ACompleteFormEnds) {
  const ApiCall call = Prepare(SchemaField(kYes));
  const std::string json = R"({"yes": true})";
  const std::optional<ConstraintState> end = Behind(call, json);
  ASSERT_TRUE(end);
  const Constraint& constraint = *call.requests[0].sampling.constraint;
  EXPECT_TRUE(constraint.CanEnd(*end));
  const TokenMask mask = *constraint.Mask(*end);
  EXPECT_EQ(mask.n_allowed(), 1) << "nothing behind the end";
  EXPECT_TRUE(mask.Allows(kEnd));
  const ReadAnswer answer = Answer(call, json, FinishReason::kStop);
  EXPECT_EQ(answer.content, json);
  EXPECT_EQ(answer.finish, GetParam().stop);
}

TEST_P(ConstrainedAnswersTest, NoAnswerEndsTooEarly) {
  const ApiCall call = Prepare(SchemaField(kYes));
  const Constraint& constraint = *call.requests[0].sampling.constraint;
  for (const std::string_view begin : {"", "{", R"({"yes")", R"({"yes": true)"}) {
    const std::optional<ConstraintState> state = Behind(call, begin);
    ASSERT_TRUE(state) << begin;
    EXPECT_FALSE(constraint.CanEnd(*state));
    for (const Token token : {kEnd, Token{0}, *tokenizer_.Find("<｜User｜>"),
                              *tokenizer_.Find("<｜Assistant｜>"), *tokenizer_.Find("</think>")}) {
      EXPECT_FALSE(constraint.Advance(*state, token)) << begin << " " << token;
    }
  }
  for (const std::string_view wrong : {"Yes", R"({"no")", R"({"yes": 1)", " {}", "{}"}) {
    EXPECT_FALSE(Behind(call, wrong)) << wrong;
  }
}

TEST_P(ConstrainedAnswersTest, TheLimitLeavesABeginning) {
  const ApiCall call = Prepare(SchemaField(kYes) + R"(, "max_tokens": 5)");
  const std::string begin = R"({"yes": tr)";
  ASSERT_TRUE(Behind(call, begin));
  const ReadAnswer answer = Answer(call, begin, FinishReason::kLength);
  EXPECT_EQ(answer.content, begin) << "as it is, not closed";
  EXPECT_EQ(answer.finish, GetParam().length);
}

TEST_P(ConstrainedAnswersTest, AStopStringLeavesABeginning) {
  const std::string field = GetParam().api == &kMessages ? "stop_sequences" : "stop";
  const ApiCall call = Prepare(SchemaField(kYes) + ", \"" + field + R"(": ["tr"])");
  const std::string begin = R"({"yes": )";
  const ReadAnswer answer = Answer(call, begin, FinishReason::kStopString);
  EXPECT_EQ(answer.content, begin);
  EXPECT_EQ(answer.finish, GetParam().api == &kMessages ? "stop_sequence" : GetParam().stop);
}

TEST_P(ConstrainedAnswersTest, ARequiredCall) {
  if (!IsChat()) return;
  const ApiCall call = Prepare(ToolField(true));
  EXPECT_FALSE(Behind(call, "Well"));
  EXPECT_FALSE(Behind(call, "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"g"));
  EXPECT_FALSE(Behind(call,
                      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
                      "<｜DSML｜parameter name=\"days\" string=\"true"));
  const std::optional<ConstraintState> end = Behind(call, kCallText);
  ASSERT_TRUE(end);
  const TokenMask mask = *call.requests[0].sampling.constraint->Mask(*end);
  EXPECT_EQ(mask.n_allowed(), 1);
  EXPECT_TRUE(mask.Allows(kEnd));
  const ReadAnswer answer = Answer(call, kCallText, FinishReason::kStop);
  EXPECT_EQ(answer.content, "");
  EXPECT_EQ(Json::parse(answer.FirstArguments()), Json({{"days", 7}}));
  EXPECT_EQ(answer.finish, GetParam().calls);
}

// Neither strict nor of a type: the required parameters alone are demanded, where a call is.
TEST_P(ConstrainedAnswersTest, AForcedCallHasItsRequiredParameters) {
  if (!IsChat()) return;
  const bool is_messages = GetParam().api == &kMessages;
  const bool is_responses = GetParam().api == &kResponses;
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "string"},
      "b": {"type": "integer"}, "c": {}}, "required": ["a", "b"]})";
  std::string tool = R"({"type": "function", "name": "f", "parameters": )" + schema + "}";
  if (GetParam().api == &kChatCompletions) {
    tool = R"({"type": "function", "function": {"name": "f", "parameters": )" + schema + "}}";
  }
  if (is_messages) tool = R"({"name": "f", "input_schema": )" + schema + "}";
  std::string named = R"({"type": "function", "function": {"name": "f"}})";
  if (is_responses) named = R"({"type": "function", "name": "f"})";
  if (is_messages) named = R"({"type": "tool", "name": "f"})";
  const auto choose = [&](const std::string& choice) {
    return Prepare(R"("tools": [)" + tool + R"(], "tool_choice": )" + choice);
  };
  const auto block = [](const std::vector<std::string>& names) {
    std::string text = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
    for (const std::string& name : names) {
      text += "<｜DSML｜parameter name=\"" + name + "\" string=\"true\">x</｜DSML｜parameter>\n";
    }
    if (names.empty()) text += "\n";
    return text + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  };
  for (const std::string& choice :
       {std::string(is_messages ? R"({"type": "any"})" : R"("required")"), named}) {
    const ApiCall call = choose(choice);
    for (const std::vector<std::string>& names :
         std::vector<std::vector<std::string>>{{}, {"a"}, {"b"}, {"c"}, {"a", "c"}}) {
      EXPECT_FALSE(Behind(call, block(names))) << choice << ::testing::PrintToString(names);
    }
    for (const std::vector<std::string>& names :
         std::vector<std::vector<std::string>>{{"a", "b"}, {"b", "a"}, {"c", "a", "b"}}) {
      EXPECT_TRUE(Behind(call, block(names))) << choice << ::testing::PrintToString(names);
    }
  }
  const ApiCall free = choose(is_messages ? R"({"type": "auto"})" : R"("auto")");
  EXPECT_TRUE(Behind(free, block({}))) << "nothing demands a call";
  EXPECT_TRUE(Behind(free, block({"a"})));
}

TEST_P(ConstrainedAnswersTest, ACallThatTheLimitCuts) {
  if (!IsChat()) return;
  const ApiCall call = Prepare(ToolField(true) + R"(, "max_tokens": 1)");
  for (std::size_t cut = 1; cut < kCallText.size(); ++cut) {
    if (!IsValidUtf8(kCallText.substr(0, cut))) continue;
    // Within the token ｜DSML｜ no answer is cut.
    const std::size_t mark = kCallText.substr(0, cut + kDsml.size() - 1).rfind(kDsml);
    if (mark != kCallText.npos && mark < cut && cut < mark + kDsml.size()) continue;
    const ReadAnswer answer = Answer(call, kCallText.substr(0, cut), FinishReason::kLength);
    EXPECT_THAT(answer.content, ::testing::Not(HasSubstr("DSML"))) << cut;
    // The block may lack nothing but the end of its last tag.
    if (!kCallText.substr(cut).starts_with(">")) {
      EXPECT_TRUE(answer.finish == GetParam().length || answer.finish == GetParam().calls) << cut;
    }
  }
}

TEST_P(ConstrainedAnswersTest, TextAndPerhapsACall) {
  if (!IsChat()) return;
  const ApiCall call = Prepare(ToolField(false));
  const Constraint& constraint = *call.requests[0].sampling.constraint;
  const std::optional<ConstraintState> text = Behind(call, "It is 1 < 2.");
  ASSERT_TRUE(text);
  EXPECT_TRUE(constraint.CanEnd(*text));
  EXPECT_TRUE(constraint.Advance(*text, kEnd));
  EXPECT_FALSE(constraint.Advance(*text, *tokenizer_.Find("｜DSML｜"))) << "no markup leaks";
  EXPECT_FALSE(Behind(call, "Here: <｜DSML｜"));
  const std::string both = "Let me see." + std::string(kCallText);
  ASSERT_TRUE(Behind(call, both));
  const ReadAnswer answer = Answer(call, both, FinishReason::kStop);
  EXPECT_EQ(answer.content, "Let me see.");
  EXPECT_EQ(Json::parse(answer.FirstArguments()), Json({{"days", 7}}));
  EXPECT_EQ(answer.finish, GetParam().calls);
}

TEST_P(ConstrainedAnswersTest, AFormOrACall) {
  if (!IsChat()) return;
  const ApiCall call = Prepare(SchemaField(kYes) + ", " + ToolField(false));
  EXPECT_TRUE(Behind(call, R"({"yes": false})"));
  EXPECT_TRUE(Behind(call, kCallText));
  EXPECT_FALSE(Behind(call, "Let me see."));
  EXPECT_FALSE(Behind(call, R"({"yes": false})" + std::string(kCallText)));
}

TEST_P(ConstrainedAnswersTest, AnAnswerThatHasBegun) {
  if (!IsChat() || GetParam().api == &kResponses) return;
  const auto prepare = [&](const std::string& begin) {
    std::string body = MakeBody(SchemaField(kYes));
    const std::string user = R"({"role": "user", "content": "Hi"})";
    body.replace(
        body.find(user), user.size(),
        user + R"(, {"role": "assistant", "prefix": true, "content": )" + Json(begin).dump() + "}");
    return GetParam().api->prepare(body, model_);
  };
  const ApiResult<ApiCall> call = prepare(R"({"yes": )");
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_TRUE(Behind(*call, "false}"));
  EXPECT_FALSE(Behind(*call, R"({"yes")"));
  const ApiResult<ApiCall> wrong = prepare("Well, ");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().status, 400);
  EXPECT_EQ(wrong.error().param, "messages");
  EXPECT_EQ(wrong.error().code, "unsatisfiable_schema");
}

TEST_P(ConstrainedAnswersTest, RefusalsNameThePlace) {
  const ApiResult<ApiCall> call = GetParam().api->prepare(
      MakeBody(SchemaField(R"({"type": "object", "properties": {"a/b": {"$ref": "#/$defs/none"}},
          "required": ["a/b"], "additionalProperties": false})")),
      model_);
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().status, 400);
  EXPECT_EQ(call.error().code, "invalid_schema");
  EXPECT_THAT(call.error().param, ::testing::EndsWith(".schema"));
  ASSERT_FALSE(call.error().issues.empty());
  EXPECT_THAT(call.error().issues[0].pointer, ::testing::StartsWith("/properties/a~1b"));
  EXPECT_EQ(call.error().issues[0].keyword, "$ref");
}

INSTANTIATE_TEST_SUITE_P(Apis, ConstrainedAnswersTest,
                         ::testing::Values(testing::kChatWords, testing::kCompletionWords,
                                           testing::kResponsesWords, testing::kMessagesWords),
                         [](const auto& words) { return words.param.name; });

class ConstrainedChatTest : public testing::ApiModelTest {
 protected:
  ConstrainedChatTest()
      : compiler_of_model_(std::make_shared<ConstraintVocabulary>(
            tokenizer_, tokenizer_.vocab_size(), std::vector<Token>{kEnd})) {
    model_.compile_constraint = [this](const ConstraintSpec& spec, const Caller&) {
      return compiler_of_model_.Compile(spec);
    };
  }

  ConstraintCompiler compiler_of_model_;
};

// Only </think> ends the reasoning, and the form holds behind it.
TEST_F(ConstrainedChatTest, ReasoningIsFree) {
  const ApiResult<ApiCall> call = kChatCompletions.prepare(
      R"({"messages": [{"role": "user", "content": "Hi"}], "guided_choice": ["yes", "no"]})",
      model_);
  ASSERT_TRUE(call);
  const Constraint& constraint = *call->requests[0].sampling.constraint;
  ConstraintState state = constraint.Begin();
  for (const Token token : Tokens("Well, maybe.")) {
    EXPECT_FALSE(constraint.Advance(state, kEnd));
    Result<ConstraintState> next = constraint.Advance(state, token);
    ASSERT_TRUE(next);
    state = *std::move(next);
  }
  state = *constraint.Advance(state, *tokenizer_.Find("</think>"));
  for (const Token token : Tokens("no")) {
    Result<ConstraintState> next = constraint.Advance(state, token);
    ASSERT_TRUE(next);
    state = *std::move(next);
  }
  EXPECT_TRUE(constraint.CanEnd(state));
}

// A tool whose schema is odd, and a grammar that is wrong.
TEST_F(ConstrainedChatTest, OddSchemasAndGrammars) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}], )";
  const auto tool = [&](const std::string& strict) {
    return chat + R"("tools": [{"type": "function", "function": {"name": "f", )" + strict +
           R"("parameters": {"type": "object", "properties": {"a": {"$ref": "#/none"}}}}}]})";
  };
  const ApiResult<ApiCall> free = kChatCompletions.prepare(tool(""), model_);
  ASSERT_TRUE(free) << free.error().message;
  EXPECT_NE(free->requests[0].sampling.constraint, nullptr);
  const ApiResult<ApiCall> strict = kChatCompletions.prepare(tool("\"strict\": true, "), model_);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().param, "tools[0].function.parameters");
  EXPECT_EQ(strict.error().issues.at(0).pointer.substr(0, 13), "/properties/a");
  const ApiResult<ApiCall> grammar =
      kChatCompletions.prepare(chat + R"("grammar": "root ::= \"a\"\nb ::= (")" + "}", model_);
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, "invalid_grammar");
  EXPECT_EQ(grammar.error().param, "grammar");
  EXPECT_THAT(grammar.error().issues.at(0).pointer, ::testing::MatchesRegex("[0-9]+:[0-9]+"));
}

TEST_F(ConstrainedChatTest, WhatIsRelaxedIsListed) {
  const ApiResult<ApiCall> call = kChatCompletions.prepare(
      R"({"messages": [{"role": "user", "content": "Hi"}],
          "guided_json": {"type": "string", "format": "phone"}})",
      model_);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->relaxed, "guided_json/format");
}

}  // namespace
}  // namespace fathom::api
