// Fields of requests become the constraint of the answers, in all APIs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "json/json_writer.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using FormKind = ContentConstraint::Kind;
using CallKind = ToolConstraint::Kind;

class ConstraintFieldsTest : public testing::ApiModelTest {
 protected:
  ConstraintFieldsTest() { model_.limits.max_context = 8192; }

  static std::string MakeBody(const Api* endpoint, const std::string& fields) {
    std::string start = R"({"messages": [{"role": "user", "content": "Hi"}], )";
    if (endpoint == &kResponses) start = R"({"input": "Hi", )";
    if (endpoint == &kCompletions) start = R"({"prompt": "Hi", )";
    return start + fields + "}";
  }
  ApiCall PrepareBody(const Api* endpoint, const std::string& body) const {
    const ApiResult<ApiCall> call = endpoint->prepare(body, model_);
    EXPECT_TRUE(call) << body << ": " << (call ? "" : call.error().message);
    return call ? *call : ApiCall();
  }
  ApiCall Prepare(const Api* endpoint, const std::string& fields) const {
    return PrepareBody(endpoint, MakeBody(endpoint, fields));
  }
  ApiError ErrorFrom(const Api* endpoint, const std::string& fields) const {
    const ApiResult<ApiCall> call = endpoint->prepare(MakeBody(endpoint, fields), model_);
    EXPECT_FALSE(call) << fields;
    return call ? ApiError() : call.error();
  }
  ConstraintSpec SpecFrom(const Api* endpoint, const std::string& fields) const {
    const ApiCall call = Prepare(endpoint, fields);
    return call.requests.empty() ? ConstraintSpec()
                                 : testing::SpecFrom(call.requests[0].sampling.constraint);
  }
  // Sends a request to each API that takes the fields of vLLM and llama.cpp.
  void ExpectForm(const std::string& fields, FormKind kind, const std::string& text = "",
                  const std::vector<std::string>& choices = {}) const {
    for (const Api* endpoint : {&kChatCompletions, &kCompletions, &kResponses, &kMessages}) {
      const ContentConstraint form = SpecFrom(endpoint, fields).content;
      EXPECT_EQ(form.kind, kind) << fields;
      EXPECT_FALSE(form.strict);
      EXPECT_EQ(form.text, text) << fields;
      EXPECT_EQ(form.choices, choices) << fields;
      EXPECT_EQ(form.kind == FormKind::kJsonSchema ? WriteJson(form.schema) : "",
                kind == FormKind::kJsonSchema ? R"({"type":"integer"})" : "")
          << fields;
    }
  }
};

constexpr const char* kSchema = R"({"type": "integer"})";

TEST_F(ConstraintFieldsTest, NothingIsAskedFor) {
  for (const Api* endpoint : {&kChatCompletions, &kCompletions, &kResponses, &kMessages}) {
    const ApiCall call = Prepare(endpoint, R"("temperature": 1)");
    EXPECT_EQ(call.requests[0].sampling.constraint, nullptr);
  }
  for (const char* fields :
       {R"("response_format": {"type": "text"})", R"("response_format": null)",
        R"("guided_json": null, "grammar": "", "guided_regex": "", "guided_choice": [])",
        R"("structured_outputs": {"json_object": false, "json": null})"}) {
    EXPECT_EQ(Prepare(&kChatCompletions, fields).requests[0].sampling.constraint, nullptr);
  }
  EXPECT_EQ(compiler_.n_compiled, 0) << "a request without a constraint pays nothing";
}

TEST_F(ConstraintFieldsTest, FormatsOfTheApis) {
  struct Case {
    const Api* endpoint;
    std::string fields;
    std::string field;
    bool strict = false;
  };
  const std::string named = R"({"type": "json_schema", "json_schema": {"name": "n", )";
  const std::string plain = R"({"type": "json_schema", "schema": {"type": "integer"})";
  const Case cases[] = {
      {&kChatCompletions, R"("response_format": )" + named + R"("schema": {"type": "integer"}}})",
       ""},
      {&kChatCompletions,
       R"("response_format": )" + named + R"("strict": true, "schema": {"type": "integer"}}})", "",
       true},
      {&kChatCompletions, R"("response_format": )" + plain + "}", ""},
      {&kChatCompletions,
       R"("response_format": {"type": "json_object", "schema": {"type": "integer"}})", ""},
      {&kCompletions, R"("response_format": )" + named + R"("schema": {"type": "integer"}}})", ""},
      {&kResponses, R"("text": {"format": )" + plain + R"(, "name": "n"}})", ""},
      {&kResponses, R"("text": {"format": )" + plain + R"(, "name": "n", "strict": true}})", "",
       true},
      {&kMessages, R"("output_config": {"format": )" + plain + "}}", "", true},
      {&kMessages, R"("output_format": )" + plain + R"(, "strict": false})", "", true},
  };
  for (const Case& one : cases) {
    const ConstraintSpec spec = SpecFrom(one.endpoint, one.fields);
    EXPECT_EQ(spec.content.kind, FormKind::kJsonSchema) << one.fields;
    EXPECT_EQ(WriteJson(spec.content.schema), R"({"type":"integer"})") << one.fields;
    EXPECT_EQ(spec.content.strict, one.strict) << one.fields;
    EXPECT_EQ(spec.tools.kind, CallKind::kNone);
  }
  EXPECT_EQ(
      SpecFrom(&kChatCompletions, R"("response_format": {"type": "json_object"})").content.kind,
      FormKind::kJsonObject);
  EXPECT_EQ(SpecFrom(&kResponses, R"("text": {"format": {"type": "json_object"}})").content.kind,
            FormKind::kJsonObject);
}

// The model is asked for the form as well as held to it.
TEST_F(ConstraintFieldsTest, ThePromptShowsTheFormat) {
  const std::string format = R"({"type": "json_schema", "schema": {"type": "integer"}})";
  for (const auto& [endpoint, fields] :
       {std::pair(&kChatCompletions, R"("response_format": )" + format),
        std::pair(&kResponses, R"("text": {"format": )" + format + "}"),
        std::pair(&kMessages, R"("output_config": {"format": )" + format + "}")}) {
    EXPECT_THAT(*tokenizer_.Decode(Prepare(endpoint, fields).requests[0].prompt),
                HasSubstr("following schema to reply:\n{\"type\": \"integer\"}<｜User｜>"));
  }
  for (const auto& [endpoint, fields] :
       {std::pair(&kChatCompletions, R"("response_format": {"type": "json_object"})"),
        std::pair(&kResponses, R"("text": {"format": {"type": "json_object"}})"),
        std::pair(&kMessages, R"("output_config": {"format": {"type": "json_object"}})")}) {
    EXPECT_THAT(*tokenizer_.Decode(Prepare(endpoint, fields).requests[0].prompt),
                HasSubstr("\n\nYou are a helpful assistant designed to output JSON.\n"
                          "## Response Format:\n\nReply with JSON object ONLY.<｜User｜>"));
  }
  const ApiCall call = Prepare(&kChatCompletions, R"("guided_json": {"type": "integer"})");
  EXPECT_THAT(*tokenizer_.Decode(call.requests[0].prompt), ::testing::Not(HasSubstr("integer")));
}

TEST_F(ConstraintFieldsTest, FieldsOfOtherServers) {
  const auto structured = [](const std::string& kind) {
    return R"("structured_outputs": {)" + kind + "}";
  };
  for (const std::string prefix : {R"("guided_json": )", R"("json_schema": )"}) {
    ExpectForm(prefix + kSchema, FormKind::kJsonSchema);
  }
  ExpectForm(R"("guided_json": "{\"type\": \"integer\"}")", FormKind::kJsonSchema);
  ExpectForm(structured(std::string(R"("json": )") + kSchema), FormKind::kJsonSchema);
  ExpectForm(structured(R"("json_object": true)"), FormKind::kJsonObject);
  ExpectForm(R"("guided_regex": "a+")", FormKind::kRegex, "a+");
  ExpectForm(structured(R"("regex": "a+")"), FormKind::kRegex, "a+");
  ExpectForm(R"("guided_choice": ["a", "b"])", FormKind::kChoice, "", {"a", "b"});
  ExpectForm(structured(R"("choice": ["a", "b"], "disable_fallback": true)"), FormKind::kChoice, "",
             {"a", "b"});
  for (const std::string field : {"grammar", "guided_grammar"}) {
    ExpectForm("\"" + field + R"(": "root ::= \"a\"")", FormKind::kGbnf, "root ::= \"a\"");
  }
  ExpectForm(structured(R"("grammar": "root ::= \"a\"")"), FormKind::kGbnf, "root ::= \"a\"");
}

TEST_F(ConstraintFieldsTest, TwoForms) {
  const auto expect = [&](const Api* endpoint, const std::string& fields, const std::string& field,
                          const std::string& other) {
    const ApiError error = ErrorFrom(endpoint, fields);
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, field);
    EXPECT_EQ(error.message,
              field + ": expected one form of the answer, found " + other + " as well");
  };
  expect(&kChatCompletions, R"("grammar": "root ::= \"a\"", "json_schema": {})", "json_schema",
         "grammar");
  expect(&kCompletions, R"("guided_regex": "a", "response_format": {"type": "json_object"})",
         "response_format", "guided_regex");
  expect(&kResponses, R"("guided_regex": "a", "text": {"format": {"type": "json_object"}})",
         "text.format", "guided_regex");
  expect(&kChatCompletions, R"("structured_outputs": {"regex": "a", "choice": ["a"]})",
         "structured_outputs", "structured_outputs");
}

TEST_F(ConstraintFieldsTest, WrongForms) {
  const auto message = [&](const std::string& fields) {
    const ApiError error = ErrorFrom(&kChatCompletions, fields);
    EXPECT_EQ(error.status, 400);
    return error.message;
  };
  EXPECT_EQ(message(R"("response_format": {"type": "json_schema"})"),
            "response_format.schema: expected a JSON schema, found nothing");
  EXPECT_EQ(message(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})"),
            "response_format.json_schema.schema: expected a JSON schema, found nothing");
  EXPECT_EQ(message(R"("guided_json": 5)"), "guided_json: expected a JSON schema, found 5");
  EXPECT_THAT(message(R"("guided_json": "{")"), ::testing::StartsWith("guided_json: "));
  EXPECT_EQ(message(R"("guided_regex": 5)"), "guided_regex: expected a string, found 5");
  EXPECT_EQ(message(R"("guided_choice": "a")"),
            "guided_choice: expected a list of strings, found \"a\"");
  EXPECT_EQ(message(R"("structured_outputs": {"choice": ["a", 1]})"),
            "structured_outputs.choice[1]: expected a string, found 1");
  EXPECT_EQ(message(R"("structured_outputs": [])"),
            "structured_outputs: expected an object, found a list");
  EXPECT_THAT(message(R"("structured_outputs": {"structural_tag": "{}"})"),
              HasSubstr("structural tags are not supported"));
}

TEST_F(ConstraintFieldsTest, Layouts) {
  const auto layout = [&](const std::string& fields) {
    return SpecFrom(&kChatCompletions, fields).content.layout;
  };
  const std::string form = R"(, "guided_json": {"type": "integer"})";
  EXPECT_EQ(layout(R"("temperature": 1)" + form), JsonLayout());
  EXPECT_EQ(layout(R"("x-fathom": {"whitespace": "compact", "key_order": "any"})" + form),
            (JsonLayout{JsonWhitespace::kCompact, JsonKeyOrder::kAny}));
  EXPECT_EQ(layout(R"("x-fathom": {"whitespace": "python"}, "response_format": {"type":
      "json_object"})")
                .whitespace,
            JsonWhitespace::kPython);
  const ContentConstraint own = SpecFrom(&kChatCompletions, R"("x-fathom": {"whitespace": "any"},
      "guided_json": {"type": "integer", "x-fathom": {"whitespace": "flex", "key_order": "any"}})")
                                    .content;
  EXPECT_EQ(own.layout, (JsonLayout{JsonWhitespace::kFlexible, JsonKeyOrder::kAny}));
  EXPECT_EQ(WriteJson(own.schema), R"({"type":"integer"})");
  EXPECT_EQ(layout(R"("structured_outputs": {"json": {"type": "integer"},
      "disable_any_whitespace": true})")
                .whitespace,
            JsonWhitespace::kCompact);
  const ApiError error = ErrorFrom(&kChatCompletions, R"("x-fathom": {"whitespace": "none"})");
  EXPECT_EQ(error.message,
            R"(x-fathom.whitespace: expected flex, compact, python or any, found "none")");
  EXPECT_EQ(error.param, "x-fathom.whitespace");
  EXPECT_EQ(ErrorFrom(&kChatCompletions, R"("x-fathom": {"key_order": "none"})").message,
            R"(x-fathom.key_order: expected schema or any, found "none")");
  EXPECT_EQ(ErrorFrom(&kChatCompletions, R"("x-fathom": {"white_space": "any"})").param,
            "x-fathom.white_space");
}

constexpr const char* kTwoTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                 {"type": "function", "function": {"name": "g"}}])";

TEST_F(ConstraintFieldsTest, ToolsThatMayBeCalled) {
  const ConstraintSpec spec = SpecFrom(&kChatCompletions, kTwoTools);
  EXPECT_EQ(spec.tools.kind, CallKind::kAuto);
  EXPECT_TRUE(spec.tools.parallel);
  EXPECT_TRUE(spec.in_reasoning);
  ASSERT_EQ(spec.tools.tools.size(), 2u);
  EXPECT_EQ(spec.tools.tools[0].name, "f");
  EXPECT_EQ(WriteJson(spec.tools.tools[0].parameters), R"({"type":"object"})");
  EXPECT_FALSE(spec.tools.tools[0].strict);
  EXPECT_EQ(spec.tools.tools[0].raw_parameter, std::nullopt);
  EXPECT_TRUE(spec.tools.tools[1].parameters.IsNull());
  EXPECT_EQ(spec.content.kind, FormKind::kNone);
  const auto parallel = [&](const Api* endpoint, const std::string& fields) {
    return SpecFrom(endpoint, fields).tools.parallel;
  };
  EXPECT_FALSE(
      parallel(&kChatCompletions, std::string(kTwoTools) + R"(, "parallel_tool_calls": false)"));
  EXPECT_FALSE(parallel(&kChatCompletions, R"("functions": [{"name": "f"}])"));
  EXPECT_FALSE(parallel(&kResponses, R"("tools": [{"type": "function", "name": "f"}],
      "parallel_tool_calls": false)"));
  EXPECT_FALSE(parallel(&kMessages, R"("tools": [{"name": "f", "input_schema": {}}],
      "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})"));
}

TEST_F(ConstraintFieldsTest, NoToolMayBeCalled) {
  const std::string none = R"(, "tool_choice": "none")";
  EXPECT_EQ(SpecFrom(&kChatCompletions, kTwoTools + none).tools.kind, CallKind::kNone);
  const ApiCall call = PrepareBody(&kChatCompletions,
                                   R"({"messages": [{"role": "system", "content": "", "tools":
      [{"type": "function", "function": {"name": "secret"}}]}, {"role": "user", "content": "Hi"}]
      )" + none + "}");
  EXPECT_THAT(*tokenizer_.Decode(call.requests[0].prompt), ::testing::Not(HasSubstr("secret")));
  EXPECT_TRUE(call.answers.parser.tools->empty());
}

TEST_F(ConstraintFieldsTest, StrictTools) {
  const auto strict = [&](const Api* endpoint, const std::string& fields) {
    std::vector<bool> flags;
    for (const ToolSchema& tool : SpecFrom(endpoint, fields).tools.tools)
      flags.push_back(tool.strict);
    return flags;
  };
  const std::string chat = R"("tools": [{"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "g", "strict": true}}])";
  EXPECT_THAT(strict(&kChatCompletions, chat), ElementsAre(false, true));
  EXPECT_THAT(strict(&kChatCompletions, R"("functions": [{"name": "g", "strict": true}])"),
              ElementsAre(true));
  EXPECT_THAT(strict(&kMessages, R"("tools": [{"name": "f", "input_schema": {}, "strict": false},
      {"name": "g", "input_schema": {}, "strict": true}])"),
              ElementsAre(false, true));
  EXPECT_THAT(strict(&kResponses, R"("tools": [{"type": "namespace", "name": "n", "tools": [
      {"type": "function", "name": "f", "strict": true}, {"type": "function", "name": "g"}]}])"),
              ElementsAre(true, false));
  const std::string published = R"("tools": [{"type": "shell"}, {"type": "apply_patch"}])";
  EXPECT_THAT(strict(&kResponses, published), ElementsAre(true, true)) << "clients rely on it";
  EXPECT_THAT(strict(&kMessages, R"("tools": [{"type": "bash_20250124", "name": "bash"}])"),
              ElementsAre(true));
  model_.defaults.openai_strict_rules = true;
  EXPECT_THAT(strict(&kResponses, published), ElementsAre(true, true)) << "not the client's schema";
  model_.defaults.openai_strict_rules = false;
  model_.defaults.tool_grammar = ToolGrammar::kStrict;
  EXPECT_THAT(strict(&kChatCompletions, chat), ElementsAre(true, true));
  model_.defaults.tool_grammar = ToolGrammar::kOff;
  EXPECT_THAT(strict(&kChatCompletions, kTwoTools), ElementsAre()) << "there is no grammar";
  EXPECT_THAT(strict(&kResponses, published), ElementsAre());
  EXPECT_THAT(strict(&kChatCompletions, chat), ElementsAre(false, true))
      << "what a request asks for does not depend on the option";
  EXPECT_THAT(Prepare(&kChatCompletions, std::string(kTwoTools) + R"(, "tool_choice": "required")")
                  .answers.parser.begins_with_call,
              true);
}

TEST_F(ConstraintFieldsTest, ToolsThatTakeAText) {
  const auto custom = [](const std::string& format) {
    return R"("tools": [{"type": "custom", "name": "c")" + format + "}]";
  };
  const ToolSchema plain = SpecFrom(&kResponses, custom("")).tools.tools.at(0);
  EXPECT_EQ(plain.raw_parameter, "input");
  EXPECT_EQ(plain.raw_regex, "");
  const std::string regex =
      R"(, "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"})";
  EXPECT_EQ(SpecFrom(&kResponses, custom(regex)).tools.tools.at(0).raw_regex, "[a-z]+");
  model_.defaults.tool_grammar = ToolGrammar::kOff;
  EXPECT_EQ(SpecFrom(&kResponses, custom(regex)).tools.tools.size(), 1u)
      << "the client asks for it";
  const ApiCall lark = Prepare(&kResponses, custom(R"(, "format": {"type": "grammar",
      "syntax": "lark", "definition": "start: /a/"})"));
  EXPECT_EQ(lark.relaxed, "tools[0].format");
  EXPECT_EQ(Prepare(&kResponses, custom(R"(, "format": {"type": "text"})")).relaxed, "");
  EXPECT_EQ(ErrorFrom(&kResponses, custom(R"(, "format": {"type": "grammar", "syntax": "ebnf"})"))
                .message,
            R"(tools[0].format.syntax: expected lark or regex, found "ebnf")");
}

TEST_F(ConstraintFieldsTest, AFormBesideTools) {
  const std::string format = R"(, "response_format": {"type": "json_object"})";
  ConstraintSpec spec = SpecFrom(&kChatCompletions, kTwoTools + format);
  EXPECT_EQ(spec.content.kind, FormKind::kJsonObject);
  EXPECT_EQ(spec.tools.kind, CallKind::kAuto);
  model_.defaults.tool_grammar = ToolGrammar::kOff;
  EXPECT_EQ(SpecFrom(&kChatCompletions, kTwoTools + format).tools.kind, CallKind::kAuto)
      << "or no call could follow";
  spec = SpecFrom(&kChatCompletions, kTwoTools + format + R"(, "tool_choice": "required",
      "x-fathom": {"whitespace": "compact"})");
  EXPECT_EQ(spec.tools.kind, CallKind::kRequired);
  EXPECT_EQ(spec.content.kind, FormKind::kNone) << "a block of calls has no content";
  EXPECT_EQ(spec.content.layout.whitespace, JsonWhitespace::kCompact) << "of the arguments";
}

TEST_F(ConstraintFieldsTest, WhatThePromptHasOfTheAnswer) {
  const auto spec = [&](const Api* endpoint, const std::string& fields) {
    return testing::SpecFrom(
        PrepareBody(endpoint, R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "{\"a\"", )" +
                                  fields + R"(, "guided_json": {"type": "object"}})")
            .requests[0]
            .sampling.constraint);
  };
  for (const auto& [endpoint, fields] :
       {std::pair(&kChatCompletions, R"("prefix": true}])"),
        std::pair(&kChatCompletions, R"("name": "x"}], "continue_final_message": true)"),
        std::pair(&kMessages, R"("name": "x"}])")}) {
    const ConstraintSpec open = spec(endpoint, fields);
    EXPECT_EQ(open.prefill, R"({"a")") << fields;
    EXPECT_FALSE(open.in_reasoning);
  }
  compiler_.refused_prefill = R"({"a")";
  const ApiResult<ApiCall> not_viable = kMessages.prepare(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content":
          "{\"a\""}], "guided_json": {}})",
      model_);
  ASSERT_FALSE(not_viable);
  EXPECT_EQ(not_viable.error().status, 400);
  EXPECT_EQ(not_viable.error().message, "messages: not so");
  EXPECT_EQ(not_viable.error().param, "messages");
  EXPECT_EQ(not_viable.error().code, "unsatisfiable_schema");
  const ConstraintSpec answered = spec(&kChatCompletions, R"("name": "x"}])");
  EXPECT_EQ(answered.prefill, "");
  EXPECT_TRUE(answered.in_reasoning);
  const std::string called = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "prefix": true, "tool_calls":
          [{"function": {"name": "f", "arguments": "{}"}}]}], )";
  EXPECT_EQ(
      PrepareBody(&kChatCompletions, called + kTwoTools + "}").requests[0].sampling.constraint,
      nullptr);
  const ApiResult<ApiCall> refused =
      kChatCompletions.prepare(called + R"("response_format": {"type": "json_object"}})", model_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "messages");
  EXPECT_EQ(refused.error().code, "unsatisfiable_schema");
}

TEST_F(ConstraintFieldsTest, AllChoicesAndPromptsShareTheConstraint) {
  const ApiCall call = PrepareBody(&kCompletions, R"({"prompt": ["a", "b"], "n": 2,
      "guided_regex": "a"})");
  ASSERT_EQ(call.requests.size(), 2u);
  EXPECT_EQ(call.requests[0].n_choices, 2);
  EXPECT_NE(call.requests[0].sampling.constraint, nullptr);
  EXPECT_EQ(call.requests[0].sampling.constraint, call.requests[1].sampling.constraint);
  EXPECT_EQ(compiler_.n_compiled, 1);
  EXPECT_FALSE(testing::SpecFrom(call.requests[0].sampling.constraint).in_reasoning);
}

TEST_F(ConstraintFieldsTest, WhatIsNotEnforcedIsListed) {
  compiler_.relaxed = {"content/properties/a/format", "tools[1]/properties/\xC3\xBC,"};
  EXPECT_EQ(Prepare(&kChatCompletions, std::string(kTwoTools) + R"(, "guided_json": {})").relaxed,
            "guided_json/properties/a/format, "
            "tools[1].function.parameters/properties/%C3%BC%2C");
  compiler_.relaxed.assign(200, "content/properties/a/format");
  const std::string relaxed = Prepare(&kMessages, R"("output_format": {"type": "json_schema",
      "schema": {}})")
                                  .relaxed;
  EXPECT_LT(relaxed.size(), 1100u) << "a header";
  EXPECT_THAT(relaxed, EndsWith(", ..."));
}

TEST_F(ConstraintFieldsTest, Refusals) {
  compiler_.error = {.code = ConstraintErrorCode::kUnsupportedSchema,
                     .message = "uniqueItems of objects is not supported",
                     .issues = {{"/items", "uniqueItems", "of objects"},
                                {"content/items/0", "contains", "of objects"}}};
  ApiError error =
      ErrorFrom(&kResponses, R"("text": {"format": {"type": "json_schema", "schema": {},
      "strict": true}})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.code, "unsupported_schema");
  EXPECT_EQ(error.param, "text.format.schema");
  EXPECT_EQ(error.message, "text.format.schema: uniqueItems of objects is not supported");
  EXPECT_EQ(ToJson(error),
            R"({"error":{"message":"text.format.schema: uniqueItems of objects is not supported",)"
            R"("type":"invalid_request_error","param":"text.format.schema",)"
            R"("code":"unsupported_schema","errors":[)"
            R"({"pointer":"/items","keyword":"uniqueItems","reason":"of objects"},)"
            R"({"pointer":"/items/0","keyword":"contains","reason":"of objects"}]}})");
  error = ErrorFrom(&kMessages, R"("output_format": {"type": "json_schema", "schema": {}})");
  EXPECT_EQ(kMessages.error(error).body,
            R"({"type":"error","error":{"type":"invalid_request_error","message":)"
            R"("output_format.schema: uniqueItems of objects is not supported",)"
            R"("code":"unsupported_schema","param":"output_format.schema","errors":[)"
            R"({"pointer":"/items","keyword":"uniqueItems","reason":"of objects"},)"
            R"({"pointer":"/items/0","keyword":"contains","reason":"of objects"}]}})");
}

TEST_F(ConstraintFieldsTest, RefusalsOfTools) {
  compiler_.error = {.code = ConstraintErrorCode::kInvalidSchema,
                     .message = std::string(100'000, 'm'),
                     .issues = {{"tools[1]/properties/a", "type", std::string(100'000, 'r')},
                                {"tools[0]", "type", "another tool"}}};
  const std::string strict = R"("tools": [{"name": "f", "input_schema": {}},
      {"name": "g", "input_schema": {}, "strict": true}])";
  ApiError error = ErrorFrom(&kMessages, strict);
  EXPECT_EQ(error.code, "invalid_schema");
  EXPECT_EQ(error.param, "tools[1].input_schema");
  ASSERT_EQ(error.issues.size(), 1u);
  EXPECT_EQ(error.issues[0].pointer, "/properties/a");
  EXPECT_LT(error.message.size() + error.issues[0].reason.size(), 1200u);
  compiler_.error->issues[0].pointer = "1/properties/a";
  error = ErrorFrom(&kMessages, strict + R"(, "guided_regex": "a")");
  EXPECT_EQ(error.param, "tools[1].input_schema");
  EXPECT_EQ(error.issues.at(0).pointer, "/properties/a");
  compiler_.error->issues = {{.pointer = "1:7", .reason = "of a grammar"}};
  error = ErrorFrom(&kMessages, strict + R"(, "guided_regex": "a")");
  EXPECT_EQ(error.param, "guided_regex");
  EXPECT_EQ(error.issues.at(0).pointer, "1:7");
  // Nothing is constrained unasked.
  const ApiCall call = Prepare(&kMessages, R"("tools": [{"name": "f", "input_schema": {}}])");
  EXPECT_EQ(call.requests[0].sampling.constraint, nullptr);
  EXPECT_EQ(call.relaxed, "tools");
}

TEST_F(ConstraintFieldsTest, AServerWithoutConstraints) {
  model_.compile_constraint = {};
  EXPECT_EQ(Prepare(&kChatCompletions, kTwoTools).requests[0].sampling.constraint, nullptr);
  for (const auto& [fields, param] :
       {std::pair(std::string(R"("guided_regex": "a")"), "guided_regex"),
        std::pair(std::string(kTwoTools) + R"(, "tool_choice": "required")", "tool_choice"),
        std::pair(std::string(R"("functions": [{"name": "f", "strict": true}])"),
                  "functions[0].parameters")}) {
    const ApiError error = ErrorFrom(&kChatCompletions, fields);
    EXPECT_EQ(error.code, "unsupported_parameter") << fields;
    EXPECT_EQ(error.param, param) << fields;
  }
}

TEST_F(ConstraintFieldsTest, ManyChoicesAreRefused) {
  std::string choices = "\"a\"";
  for (int i = 0; i < 50'000; ++i) choices += ",\"a\"";
  for (const std::string& list : {choices, '"' + std::string((1 << 20) + 1, 'a') + '"'}) {
    const ApiError error = ErrorFrom(&kCompletions, R"("guided_choice": [)" + list + "]");
    EXPECT_EQ(error.code, "constraint_too_large");
    EXPECT_EQ(error.param, "guided_choice");
  }
  EXPECT_EQ(compiler_.n_compiled, 0);
}

TEST_F(ConstraintFieldsTest, NothingIsCompiledForAPromptThatIsTooLong) {
  model_.limits.max_context = 3;
  EXPECT_EQ(ErrorFrom(&kChatCompletions, R"("guided_regex": "a")").code, "context_length_exceeded");
  EXPECT_EQ(compiler_.n_compiled, 0);
}

TEST_F(ConstraintFieldsTest, RulesOfOpenAi) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "string"}}})";
  const std::string chat =
      R"("response_format": {"type": "json_schema", "json_schema": {"strict": true, "schema": )" +
      schema + "}}";
  const std::string response =
      R"("tools": [{"type": "function", "name": "f", "strict": true, "parameters": )" + schema +
      "}]";
  const std::string message =
      R"("output_format": {"type": "json_schema", "schema": )" + schema + "}";
  Prepare(&kChatCompletions, chat);
  Prepare(&kResponses, response);
  model_.defaults.openai_strict_rules = true;
  ApiError error = ErrorFrom(&kChatCompletions, chat);
  EXPECT_EQ(error.code, "invalid_schema");
  EXPECT_EQ(error.param, "response_format.json_schema.schema");
  ASSERT_EQ(error.issues.size(), 2u);
  EXPECT_EQ(error.issues[0].keyword, "additionalProperties");
  EXPECT_EQ(error.issues[1].keyword, "required");
  EXPECT_EQ(ErrorFrom(&kResponses, response).param, "tools[0].parameters");
  Prepare(&kMessages, message);
  Prepare(&kChatCompletions, R"("guided_json": )" + schema);
}

}  // namespace
}  // namespace fathom::api
