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

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "chat/literals.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr Token kEnd = 1;

// The parts of an answer that a client reads.
struct ReadAnswer {
  std::string content;
  std::string arguments;  // of the first call
  std::string finish;     // in the API's words
};

// The JSON of the events of a stream.
std::vector<Json> ReadEvents(std::string_view stream) {
  std::vector<Json> events;
  constexpr std::string_view kData = "data: {";
  for (std::size_t at = stream.find(kData); at != std::string_view::npos;) {
    const std::size_t end = stream.find("\n\n", at);
    events.push_back(Json::parse(stream.substr(at + 6, end - at - 6), nullptr, false));
    at = stream.find(kData, end);
  }
  return events;
}

void AddText(const Json& value, std::string* text) {
  if (value.is_string()) *text += value.get<std::string>();
}

std::string TextOr(const Json& value, std::string otherwise) {
  return value.is_string() ? value.get<std::string>() : std::move(otherwise);
}

ReadAnswer ReadToldWhole(const Api* api, const Json& whole) {
  ReadAnswer answer;
  if (api == &kChatCompletions) {
    const Json& choice = whole["choices"][0];
    EXPECT_TRUE(choice["message"].contains("refusal"));
    EXPECT_TRUE(choice["message"]["refusal"].is_null()) << "never";
    answer.content = TextOr(choice["message"]["content"], "");
    if (choice["message"].contains("tool_calls")) {
      answer.arguments = choice["message"]["tool_calls"][0]["function"]["arguments"];
    }
    answer.finish = choice["finish_reason"];
  } else if (api == &kCompletions) {
    answer.content = whole["choices"][0]["text"];
    answer.finish = whole["choices"][0]["finish_reason"];
  } else if (api == &kMessages) {
    for (const Json& block : whole["content"]) {
      if (block["type"] == "text") answer.content += block["text"].get<std::string>();
      if (block["type"] == "tool_use") answer.arguments = block["input"].dump();
    }
    answer.finish = whole["stop_reason"];
  } else {
    for (const Json& item : whole["output"]) {
      if (item["type"] == "message") {
        for (const Json& part : item["content"]) answer.content += part["text"].get<std::string>();
      }
      if (item["type"] == "function_call") answer.arguments = item["arguments"];
    }
    answer.finish = whole["status"];
  }
  return answer;
}

ReadAnswer ReadToldStream(const Api* api, const std::string& stream) {
  ReadAnswer answer;
  for (const Json& event : ReadEvents(stream)) {
    const Json none;
    if (api == &kChatCompletions || api == &kCompletions) {
      if (event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      const Json delta = choice.value("delta", Json::object());
      AddText(api == &kCompletions ? choice["text"] : delta.value("content", none),
              &answer.content);
      if (delta.contains("tool_calls")) {
        AddText(delta["tool_calls"][0]["function"]["arguments"], &answer.arguments);
      }
      if (!choice["finish_reason"].is_null()) answer.finish = choice["finish_reason"];
    } else if (api == &kMessages) {
      const Json delta = event.value("delta", Json::object());
      AddText(delta.value("text", none), &answer.content);
      AddText(delta.value("partial_json", none), &answer.arguments);
      if (delta.contains("stop_reason")) answer.finish = delta["stop_reason"];
    } else {
      const std::string type = event["type"];
      if (type == "response.output_text.delta") AddText(event["delta"], &answer.content);
      if (type == "response.function_call_arguments.delta") {
        AddText(event["delta"], &answer.arguments);
      }
      if (type == "response.completed" || type == "response.incomplete") {
        answer.finish = event["response"]["status"];
      }
    }
  }
  return answer;
}

// The words of an API for the three ends of an answer.
struct Surface {
  std::string name;
  const Api* api;
  std::string stop;
  std::string calls;
  std::string length;
};

class ConstrainedAnswersTest : public testing::ApiModelTest,
                               public ::testing::WithParamInterface<Surface> {
 protected:
  ConstrainedAnswersTest() {
    model_.limits.max_context = 8192;
    const std::vector<Token> ends = {kEnd};
    compiler = std::make_shared<ConstraintCompiler>(
        ConstraintVocabulary::Make(tokenizer_, tokenizer_.vocab_size(), ends));
    model_.compile_constraint = [this](const ConstraintSpec& spec) {
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
    const ReadAnswer whole = ReadToldWhole(GetParam().api, told.whole);
    const ReadAnswer streamed = ReadToldStream(GetParam().api, told.stream);
    EXPECT_EQ(streamed.content, whole.content) << told.stream;
    const Json arguments = Json::parse(streamed.arguments, nullptr, false);
    if (arguments.is_object() && !whole.arguments.empty()) {
      EXPECT_EQ(arguments, Json::parse(whole.arguments, nullptr, false));
    } else if (GetParam().api != &kMessages) {  // whose input must be an object
      EXPECT_EQ(streamed.arguments, whole.arguments);
    }
    EXPECT_EQ(streamed.finish, whole.finish) << told.stream;
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
  EXPECT_EQ(Json::parse(answer.arguments), Json({{"days", 7}}));
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
  EXPECT_EQ(Json::parse(answer.arguments), Json({{"days", 7}}));
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

INSTANTIATE_TEST_SUITE_P(
    Apis, ConstrainedAnswersTest,
    ::testing::Values(Surface{"Chat", &kChatCompletions, "stop", "tool_calls", "length"},
                      Surface{"Completions", &kCompletions, "stop", "", "length"},
                      Surface{"Responses", &kResponses, "completed", "completed", "incomplete"},
                      Surface{"Messages", &kMessages, "end_turn", "tool_use", "max_tokens"}),
    [](const auto& surface) { return surface.param.name; });

class ConstrainedChatTest : public testing::ApiModelTest {
 protected:
  ConstrainedChatTest()
      : compiler_of_model_(ConstraintVocabulary::Make(tokenizer_, tokenizer_.vocab_size(),
                                                      std::vector<Token>{kEnd})) {
    model_.compile_constraint = [this](const ConstraintSpec& spec) {
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
}  // namespace fathom
