#include "api/anthropic/messages_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/anthropic/messages_api.h"
#include "chat/literals.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr RequestLimits kMessagesLimits = {.vocab_size = 1000, .max_context = 4096};

// A body with these fields beside its messages.
std::string Body(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

ChatCompletionRequest ParseFields(const std::string& fields, const RequestDefaults& defaults = {}) {
  Result<ChatCompletionRequest> request =
      ParseMessagesRequest(Body(fields), kMessagesLimits, defaults);
  EXPECT_TRUE(request) << fields << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : ChatCompletionRequest();
}

std::string ErrorFrom(const std::string& fields) {
  const Result<ChatCompletionRequest> request =
      ParseMessagesRequest(Body(fields), kMessagesLimits, {});
  EXPECT_FALSE(request) << fields;
  return request ? "" : request.error().message;
}

TEST(MessagesRequestTest, NothingSaidIsTheDefaults) {
  const RequestDefaults defaults = {
      .sampling = {.temperature = 0.6, .top_p = 0.95, .top_logprobs = 2, .max_tokens = 77},
      .encoding = {.thinking = ThinkingMode::kChat}};
  for (const char* fields :
       {"", R"("temperature": null, "top_p": null, "top_k": null, "max_tokens": null,
               "stop_sequences": null, "tools": null, "tool_choice": null, "thinking": null,
               "output_config": null, "system": null, "stream": null)"}) {
    const ChatCompletionRequest request = ParseFields(fields, defaults);
    EXPECT_EQ(request.generation.sampling.temperature, 0.6);
    EXPECT_EQ(request.generation.sampling.top_p, 0.95);
    EXPECT_EQ(request.generation.sampling.max_tokens, 77);
    EXPECT_EQ(request.generation.sampling.top_logprobs, std::nullopt) << "nowhere to put them";
    EXPECT_EQ(request.generation.n_choices, 1);
    EXPECT_FALSE(request.generation.stream);
    EXPECT_EQ(request.encoding.thinking, ThinkingMode::kChat);
    EXPECT_TRUE(request.parallel_tool_calls);
    EXPECT_TRUE(request.include_reasoning);
    EXPECT_THAT(request.chat.tools, IsEmpty());
    ASSERT_THAT(request.chat.messages, SizeIs(1));
  }
}

TEST(MessagesRequestTest, ReadsEveryField) {
  const ChatCompletionRequest request = ParseFields(R"(
      "model": "claude-opus-4-6", "max_tokens": 5, "temperature": 0.5, "top_p": 0.25, "top_k": 7,
      "stop_sequences": ["a", "b"], "ignore_eos": true, "stream": true, "seed": 3,
      "metadata": {"user_id": "u"}, "service_tier": "auto", "context_management": {"edits": []}, "betas": ["x"], "container": "c",
      "mcp_servers": [], "cache_control": {"type": "ephemeral"}, "anything": [1])");
  EXPECT_EQ(request.generation.model, "claude-opus-4-6");
  const SamplingParameters& sampling = request.generation.sampling;
  EXPECT_EQ(sampling.max_tokens, 5);
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_THAT(sampling.stop_strings, ElementsAre("a", "b"));
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.seed, 3u);
  EXPECT_TRUE(request.generation.stream);
  EXPECT_EQ(ParseFields(R"("temperature": 2)").generation.sampling.temperature, 2);
  EXPECT_EQ(ParseFields("").generation.sampling.max_tokens, std::nullopt);
}

TEST(MessagesRequestTest, WrongFields) {
  EXPECT_EQ(ErrorFrom(R"("max_tokens": 0)"),
            "max_tokens: expected an integer of at least 1, found 0");
  EXPECT_EQ(ErrorFrom(R"("max_tokens": -5)"),
            "max_tokens: expected an integer of at least 1, found -5");
  EXPECT_EQ(ErrorFrom(R"("temperature": 2.5)"),
            "temperature: expected a number from 0 to 2, found 2.5");
  EXPECT_EQ(ErrorFrom(R"("stop_sequences": ["a", ""])"),
            R"(stop_sequences[1]: expected a string of 1 to 512 characters, found "")");
  EXPECT_EQ(ErrorFrom(R"("stop_sequences": {})"),
            "stop_sequences: expected a string or a list of strings, found an object");
  EXPECT_EQ(ErrorFrom(R"("stream": 1)"), "stream: expected true or false, found 1");
  EXPECT_EQ(ErrorFrom(R"("model": 1)"), "model: expected a string, found 1");
  for (const char* body : {"", "[]", "{", "null"}) {
    EXPECT_FALSE(ParseMessagesRequest(body, kMessagesLimits, {})) << body;
  }
}

TEST(MessagesRequestTest, Thinking) {
  const RequestDefaults chat = {.sampling = {}, .encoding = {.thinking = ThinkingMode::kChat}};
  const auto thinks = [&](const std::string& fields, const RequestDefaults& defaults) {
    return ParseFields(fields, defaults).encoding.thinking == ThinkingMode::kThinking;
  };
  EXPECT_TRUE(thinks("", {}));
  EXPECT_FALSE(thinks(R"("thinking": {"type": "disabled"})", {}));
  EXPECT_TRUE(thinks(R"("thinking": {"type": "enabled", "budget_tokens": 1024})", chat));
  EXPECT_TRUE(thinks(R"("thinking": {"type": "adaptive", "display": "omitted"})", chat));
  EXPECT_FALSE(
      thinks(R"("thinking": {"type": "disabled"}, "output_config": {"effort": "high"})", {}));
  EXPECT_TRUE(thinks(R"("output_config": {"effort": "low"})", chat));
  EXPECT_EQ(ParseFields(R"("output_config": {"effort": "max"})").encoding.effort, "max");
  EXPECT_TRUE(thinks(R"("thinking": true)", chat));
  EXPECT_EQ(ErrorFrom(R"("thinking": 1)"),
            "thinking: expected an object with a type, true or false, found 1");
  EXPECT_EQ(ErrorFrom(R"("thinking": {"type": "on"})"),
            R"(thinking.type: expected enabled, disabled, adaptive or auto, found "on")");
  EXPECT_EQ(ErrorFrom(R"("output_config": {"effort": 5})"),
            "output_config.effort: expected a string, found 5");
  EXPECT_EQ(ErrorFrom(R"("output_config": [])"), "output_config: expected an object, found a list");
}

TEST(MessagesRequestTest, FormatsOfTheOutput) {
  const std::string format = R"({"type": "json_schema", "schema": {"type": "object"}})";
  for (const std::string& field :
       {R"("output_config": {"format": )" + format + "}", R"("output_format": )" + format}) {
    const ChatCompletionRequest request = ParseFields(field);
    const ContentForm& form = request.generation.form;
    EXPECT_EQ(form.constraint.kind, ContentConstraint::Kind::kJsonSchema);
    EXPECT_TRUE(form.constraint.strict) << "always, in this API";
    EXPECT_EQ(form.path, form.field + ".schema");
    EXPECT_EQ(request.chat.response_format, format) << "the prompt shows it";
  }
  EXPECT_EQ(
      ErrorFrom(R"("output_config": {"format": )" + format + R"(}, "output_format": )" + format),
      "output_format: expected one form of the answer, found output_config.format as well");
  EXPECT_EQ(ErrorFrom(R"("output_config": {"format": {"type": "xml"}})"),
            R"(output_config.format.type: expected text, json_object or json_schema, found "xml")");
  EXPECT_EQ(ErrorFrom(R"("output_config": {"format": 1})"),
            "output_config.format: expected an object with a type, found 1");
  ParseFields(R"("output_config": {"format": null}, "output_format": {"type": "text"})");
}

TEST(MessagesRequestTest, ToolsAreShownInTheClientsOwnText) {
  const ChatCompletionRequest request = ParseFields(R"("tools": [
      {"input_schema": {"type":"object", "b": 1.0e2,"a" :12345678901234567890123},
       "description": "caf\u00e9 \"x\"", "name": "f", "cache_control": {"type": "ephemeral"}},
      {"type": "custom", "name": "g", "input_schema": {}, "description": null, "strict": false},
      {"type": null, "name": "h", "input_schema": {}, "strict": true},
      {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
      {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}])");
  ASSERT_THAT(request.chat.tools, SizeIs(4));
  EXPECT_EQ(request.chat.tools[0].name, "f");
  EXPECT_EQ(request.chat.tools[0].function_json,
            R"({"name": "f", "description": "caf\u00e9 \"x\"", "parameters": )"
            R"({"type":"object", "b": 1.0e2,"a" :12345678901234567890123}})");
  EXPECT_EQ(request.chat.tools[1].function_json, R"({"name": "g", "parameters": {}})");
  EXPECT_EQ(request.chat.tools[2].function_json,
            R"({"name": "h", "parameters": {}, "strict": true})");
  EXPECT_EQ(request.chat.tools[3].name, "str_replace_based_edit_tool");
}

// By their published parameters, which differ from version to version.
TEST(MessagesRequestTest, ToolsThatClientsRunAreFunctions) {
  const auto function = [](const std::string& tool) {
    const ChatCompletionRequest request = ParseFields(R"("tools": [{)" + tool + "}]");
    EXPECT_THAT(request.chat.tools, SizeIs(1)) << tool;
    return request.chat.tools.empty()
               ? Json()
               : Json::parse(request.chat.tools[0].function_json, nullptr, false);
  };
  const auto parameters = [&](const std::string& tool) {
    const Json json = function(tool);
    EXPECT_TRUE(json.is_object()) << tool;
    std::vector<std::string> names;
    for (const auto& [name, schema] : json["parameters"]["properties"].items()) {
      names.push_back(name);
    }
    return names;
  };
  using ::testing::Contains;
  using ::testing::Not;
  const Json bash = function(R"("type": "bash_20250124", "name": "bash")");
  EXPECT_EQ(bash["name"], "bash");
  EXPECT_EQ(bash["parameters"]["anyOf"],
            Json::parse(R"([{"required": ["command"]}, {"required": ["restart"]}])"));
  EXPECT_THAT(parameters(R"("type": "bash_20241022", "name": "bash")"),
              ElementsAre("command", "restart"));
  EXPECT_THAT(parameters(R"("type": "text_editor_20250728", "name": "e", "max_characters": 5)"),
              Contains("insert_text"));
  const Json old = function(R"("type": "text_editor_20250124", "name": "str_replace_editor")");
  EXPECT_THAT(old["parameters"].dump(), HasSubstr("undo_edit"));
  EXPECT_THAT(old["parameters"].dump(), Not(HasSubstr("insert_text")));
  EXPECT_THAT(parameters(R"("type": "memory_20250818", "name": "memory")"), Contains("new_path"));
  const Json computer = function(R"("type": "computer_20250124", "name": "computer",
      "display_width_px": 1024, "display_height_px": 768)");
  EXPECT_THAT(computer["description"], HasSubstr("1024x768"));
  EXPECT_THAT(computer["parameters"].dump(), HasSubstr("triple_click"));
  EXPECT_THAT(function(R"("type": "computer_20241022", "name": "computer")").dump(),
              Not(HasSubstr("triple_click")));
  EXPECT_EQ(ErrorFrom(R"("tools": [{"type": "bash_20250124"}])"),
            "tools[0].name: expected a string that is not empty, found nothing");
}

TEST(MessagesRequestTest, OnlyClientsThatAskGetReasoning) {
  const RequestDefaults quiet = {
      .sampling = {}, .encoding = {.thinking = ThinkingMode::kThinking}, .messages_think = false};
  const auto thinks = [&](const std::string& fields) {
    return ParseFields(fields, quiet).encoding.thinking == ThinkingMode::kThinking;
  };
  EXPECT_FALSE(thinks(""));
  EXPECT_FALSE(thinks(R"("thinking": null)"));
  EXPECT_TRUE(thinks(R"("thinking": {"type": "adaptive"})"));
  EXPECT_TRUE(thinks(R"("thinking": {"type": "enabled", "budget_tokens": 1024})"));
  EXPECT_TRUE(thinks(R"("output_config": {"effort": "low"})"));
}

TEST(MessagesRequestTest, ThinkingMayBeOmitted) {
  const auto shows = [](const std::string& display) {
    return ParseFields(R"("thinking": {"type": "adaptive", "display": )" + display + "}")
        .include_reasoning;
  };
  EXPECT_FALSE(shows(R"("omitted")"));
  EXPECT_TRUE(shows(R"("summarized")"));
  EXPECT_TRUE(shows("null"));
  EXPECT_TRUE(shows(R"("updates")")) << "of Claude Code";
  EXPECT_TRUE(shows("5")) << "an unknown display is the default";
}

TEST(MessagesRequestTest, WrongTools) {
  EXPECT_EQ(ErrorFrom(R"("tools": {})"), "tools: expected a list of tools, found an object");
  EXPECT_EQ(ErrorFrom(R"("tools": [1])"), "tools[0]: expected an object, found 1");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"input_schema": {}}])"),
            "tools[0].name: expected a string that is not empty, found nothing");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"name": 5, "input_schema": {}}])"),
            "tools[0].name: expected a string, found 5");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"name": "f", "description": 5, "input_schema": {}}])"),
            "tools[0].description: expected a string, found 5");
  EXPECT_EQ(
      ErrorFrom(R"("tools": [{"type": "", "name": "f", "input_schema": {}}])"),
      R"(tools[0].type: expected custom, bash_*, text_editor_*, memory_* or computer_*, found "")");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"name": "f", "strict": {}, "input_schema": {}}])"),
            "tools[0].strict: expected true or false, found an object");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"name": "f"}])"),
            "tools[0].input_schema: expected an object, found nothing");
  EXPECT_EQ(ErrorFrom(R"("tools": [{"name": "f", "input_schema": "{}"}])"),
            R"(tools[0].input_schema: expected an object, found "{}")");
  RequestLimits limits = kMessagesLimits;
  limits.max_tools = 1;
  const Result<ChatCompletionRequest> request =
      ParseMessagesRequest(Body(R"("tools": [{"type": "a"}, {"type": "b"}])"), limits, {});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().message, "tools: expected at most 1, found 2");
}

TEST(MessagesRequestTest, ToolChoice) {
  const std::string tools = R"("tools": [{"name": "f", "input_schema": {}}], "tool_choice": )";
  ChatCompletionRequest request = ParseFields(tools + R"({"type": "auto"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kAuto);
  EXPECT_TRUE(request.parallel_tool_calls);
  request = ParseFields(tools + R"({"type": "auto", "disable_parallel_tool_use": true})");
  EXPECT_FALSE(request.parallel_tool_calls);
  request = ParseFields(tools + R"({"type": "any", "disable_parallel_tool_use": false})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_TRUE(request.parallel_tool_calls);
  request = ParseFields(tools + R"({"type": "tool", "name": "f"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
  request = ParseFields(tools + R"({"type": "none"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNone);
  EXPECT_THAT(request.chat.tools, IsEmpty());

  EXPECT_EQ(ErrorFrom(tools + R"("auto")"),
            "tool_choice.type: expected auto, any, tool or none, found nothing");
  EXPECT_EQ(ErrorFrom(tools + R"({"type": "some"})"),
            R"(tool_choice.type: expected auto, any, tool or none, found "some")");
  EXPECT_EQ(ErrorFrom(tools + R"({"type": "tool", "name": "g"})"),
            R"(tool_choice.name: expected the name of one of the tools, found "g")");
  EXPECT_EQ(ErrorFrom(tools + R"({"type": "tool"})"),
            "tool_choice.name: expected the name of one of the tools, found nothing");
  EXPECT_EQ(ErrorFrom(R"("tool_choice": {"type": "any"})"),
            R"(tool_choice.type: expected auto or none without tools, found "any")");
}

// Bodies as a coding agent sends them -> prompts.
class MessagesBodiesTest : public testing::ApiModelTest {
 protected:
  MessagesBodiesTest() {
    model_.limits.max_context = 100000;
    model_.profile = *FindProfile("v4-0731");
  }

  static std::string MakeBody(const std::string& name) {
    return testing::ReadFile(testing::ProjectPath("tests/api/bodies/" + name));
  }
  ApiCall Prepare(const std::string& body) const {
    ApiResult<ApiCall> call = kMessages.prepare(body, model_);
    EXPECT_TRUE(call) << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }
  std::string PromptFrom(const std::string& body) const {
    const ApiCall call = Prepare(body);
    return call.requests.empty() ? "" : *tokenizer_.Decode(call.requests[0].prompt);
  }
  ApiError ErrorFrom(const std::string& body) const {
    const ApiResult<ApiCall> call = kMessages.prepare(body, model_);
    EXPECT_FALSE(call) << body;
    return call ? ApiError() : call.error();
  }
};

std::string ToolsBlock(const std::string& schemas) {
  return std::string(kToolsBlockPrefix) + std::string(kToolsBlockBefore) + schemas +
         std::string(kToolsBlockAfter);
}

TEST_F(MessagesBodiesTest, FirstTurn) {
  const ApiCall call = Prepare(MakeBody("messages_first_turn.json"));
  ASSERT_THAT(call.requests, SizeIs(1));
  EXPECT_EQ(
      *tokenizer_.Decode(call.requests[0].prompt),
      "<｜begin▁of▁sentence｜>" + std::string(FindEffort(model_.profile, "high")->prefix) +
          "You are Claude Code, Anthropic's official CLI for Claude.\n\n"
          "You are an interactive CLI tool that helps users with software engineering tasks.\n\n"
          "# Tone\n- Be concise, direct, and to the point.\n"
          "- Never write <｜User｜> or </think> yourself.\n\n"
          "<env>\nWorking directory: /home/ada/engine\nPlatform: linux\n</env>" +
          ToolsBlock(
              R"({"name": "Bash", "description": "Executes a given bash command.\n\nUsage notes:\n)"
              R"(  - Quote paths with spaces: \"a b\"\n  - Results above 30000 characters are cut…",)"
              R"( "parameters": {"$schema": "http://json-schema.org/draft-07/schema#", "type": )"
              R"("object", "properties": {"command": {"type": "string", "description": )"
              R"("The command to execute"}, "timeout": {"type": "number", "maximum": 600000.0, )"
              R"("exclusiveMinimum": 0.5}, "run_in_background": {"type": "boolean", "default": )"
              R"(false}}, "required": ["command"], "additionalProperties": false}})"
              "\n"
              R"({"name": "Read", "description": "Reads a file.", "parameters": )"
              R"({"additionalProperties": false, "type": "object", "required": ["file_path"], )"
              R"("properties": {"file_path": {"type": "string"}, "offset": {"type": "integer", )"
              R"("maximum": 9007199254740991123}}}})") +
          "<｜User｜><system-reminder>\nThis is what the user has written down: use tabs.\n"
          "</system-reminder>\n\n\nWhy does the build of src/wheel.cc fail?<｜Assistant｜><think>");
  const Token user = *tokenizer_.Find("<｜User｜>");
  const std::vector<Token>& prompt = call.requests[0].prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), user), 1) << "that of the client is text";
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.answers.parser.starts_in_reasoning);
  EXPECT_TRUE(call.answers.parser.tools->Knows("Read"));
  EXPECT_FALSE(call.answers.parser.tools->Knows("web_search"));
  EXPECT_EQ(call.requests[0].sampling.max_tokens, 32000);
  EXPECT_EQ(call.model, "claude-sonnet-4-5-20250929");
}

// The next request of the same conversation begins with the same tokens, whatever the client has
// changed in what is not said to the model.
TEST_F(MessagesBodiesTest, TheHeadIsStable) {
  Json body = Json::parse(MakeBody("messages_first_turn.json"), nullptr, false);
  const std::vector<Token> prompt = Prepare(body.dump()).requests[0].prompt;
  body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=2.1.37.3a2; cch=00000;";
  body["system"][1].erase("cache_control");
  std::string text = body["system"][2]["text"].get<std::string>();
  body["system"][2]["text"] = text.replace(text.find("183442"), 6, "79");
  body["messages"][0]["content"][1].erase("cache_control");
  body["metadata"] = nullptr;
  EXPECT_EQ(Prepare(body.dump()).requests[0].prompt, prompt);
  model_.defaults.stable_system = false;
  EXPECT_NE(Prepare(body.dump()).requests[0].prompt, prompt);
}

TEST_F(MessagesBodiesTest, ParallelResults) {
  EXPECT_EQ(
      PromptFrom(MakeBody("messages_parallel_results.json")),
      "<｜begin▁of▁sentence｜>" + std::string(FindEffort(model_.profile, "high")->prefix) +
          "You are a coding agent." +
          ToolsBlock(
              R"({"name": "Bash", "description": "", "parameters": {"type": "object", "properties": )"
              R"({"command": {"type": "string"}}}})"
              "\n"
              R"({"name": "Read", "description": "", "parameters": )"
              R"({"type": "object", "properties": {}}})") +
          "<｜User｜>Why does the build fail?<｜Assistant｜><think>Two things to look at.</think>"
          "I look at the file and at the log.\n\n<｜DSML｜tool_calls>\n"
          "<｜DSML｜invoke name=\"Read\">\n"
          "<｜DSML｜parameter name=\"file_path\" string=\"true\">/home/ada/engine/src/wheel.cc"
          "</｜DSML｜parameter>\n"
          "<｜DSML｜parameter name=\"offset\" string=\"false\">12345678901234567890"
          "</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
          "<｜DSML｜invoke name=\"Bash\">\n"
          "<｜DSML｜parameter name=\"command\" string=\"true\">make 2>&1 | tail -n 3"
          "</｜DSML｜parameter>\n"
          "<｜DSML｜parameter name=\"timeout\" string=\"false\">1.5</｜DSML｜parameter>\n"
          "</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>"
          "<｜User｜><tool_result>1\tint wheel() {\n2\t  return 3\n3\t}\n\n[Unsupported image]"
          "</tool_result>\n\n<tool_result>wheel.cc:3: error: expected ';'</tool_result>\n\n"
          "[The user opened wheel.cc]<｜Assistant｜><think>")
      << "the results in the order of the calls";
}

TEST_F(MessagesBodiesTest, ThinkingReplay) {
  const std::string body = MakeBody("messages_thinking_replay.json");
  const ApiCall call = Prepare(body);
  EXPECT_EQ(
      PromptFrom(body),
      "<｜begin▁of▁sentence｜>You are a coding agent.<｜User｜>Is 91 prime?<｜Assistant｜></think>"
      "No: 7 · 13.<｜end▁of▁sentence｜><｜User｜><system-reminder>\nThe user has switched to a "
      "plan.\n"
      "</system-reminder>\n\nnotes.txt\n\n97 is prime.\n\nAnd "
      "97?<｜Assistant｜></think>{\"prime\":");
  EXPECT_FALSE(call.answers.parser.starts_in_reasoning);
  EXPECT_THAT(call.answers.stop_strings, ElementsAre("}"));
  Json thinking = Json::parse(body, nullptr, false);
  thinking["thinking"]["type"] = "enabled";
  thinking["tools"] = {{{"name", "f"}, {"input_schema", Json::object()}}};
  EXPECT_THAT(
      PromptFrom(thinking.dump()),
      HasSubstr("<｜Assistant｜><think>7 · 13 = 91.</think>No: 7 · 13.<｜end▁of▁sentence｜>"))
      << "with tools the reasoning of earlier turns is kept";
}

TEST_F(MessagesBodiesTest, AStartedAnswerIsContinuedOutsideTheReasoning) {
  const std::string body = R"({"messages": [{"role": "user", "content": "A title, as JSON"},
      {"role": "assistant", "content": "{"}]})";
  EXPECT_EQ(PromptFrom(body), "<｜begin▁of▁sentence｜>" +
                                  std::string(FindEffort(model_.profile, "high")->prefix) +
                                  "<｜User｜>A title, as JSON<｜Assistant｜><think></think>{");
  EXPECT_FALSE(Prepare(body).answers.parser.starts_in_reasoning);
}

TEST_F(MessagesBodiesTest, CountsTheTokensOfThePrompt) {
  for (const char* name : {"messages_first_turn.json", "messages_parallel_results.json",
                           "messages_thinking_replay.json"}) {
    const std::string body = MakeBody(name);
    const auto n_tokens = static_cast<std::int64_t>(Prepare(body).requests[0].prompt.size());
    EXPECT_EQ(CountMessageTokens(body, model_).value_or(-1), n_tokens);
  }
  const std::string body = MakeBody("messages_first_turn.json");
  const std::int64_t n_tokens = CountMessageTokens(body, model_).value_or(-1);
  model_.limits.max_context = 10;
  EXPECT_EQ(CountMessageTokens(body, model_).value_or(0), n_tokens) << "also of what is too long";
  EXPECT_EQ(CountMessageTokens("{}", model_).error().param, "messages");
  EXPECT_GT(CountMessageTokens(R"({"messages": [{"role": "user", "content": "Hi"}],
      "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}})",
                               model_)
                .value_or(0),
            100);
}

TEST_F(MessagesBodiesTest, Errors) {
  const std::string start = R"({"messages": [{"role": "user", "content": "Hi"}], )";
  ApiError error = ErrorFrom(start + R"("output_config": {"effort": "enormous"}})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "output_config.effort");
  error = ErrorFrom(start + R"("output_config": {"format": {"type": "json_schema"}}})");
  EXPECT_EQ(error.code, "invalid_value");
  EXPECT_EQ(error.param, "output_config.format.schema");
  model_.limits.max_context = 3;
  error = ErrorFrom(start + R"("stream": true})");
  ASSERT_TRUE(error.overflow);
  EXPECT_EQ(error.overflow->max_context, 3);
  EXPECT_GT(error.overflow->prompt_tokens, 3);
}

}  // namespace
}  // namespace fathom::api
