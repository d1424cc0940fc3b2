#include "api/responses/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/common/reasoning_token.h"
#include "json/json_writer.h"
#include "tests/api/responses/responses_fixture.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;
using testing::Json;
using ::testing::StartsWith;

constexpr RequestLimits kResponsesLimits = {
    .vocab_size = 1000, .max_context = 4096, .max_tools = 3};

ResponsesRequest ParseWholeBody(const std::string& body, const RequestDefaults& defaults = {}) {
  Result<ResponsesRequest> request =
      ParseResponsesRequest(body, kResponsesLimits, defaults, nullptr);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : ResponsesRequest();
}

ResponsesRequest WithFields(const std::string& fields, const RequestDefaults& defaults = {}) {
  return ParseWholeBody(R"({"input": "Hi", )" + fields + "}", defaults);
}

std::vector<Message> ReadMessages(const std::string& items) {
  return ParseWholeBody(R"({"input": [)" + items + "]}").chat.chat.messages;
}

std::string MessageOfError(const std::string& body) {
  const auto request = ParseResponsesRequest(body, kResponsesLimits, {}, nullptr);
  return request ? "accepted" : request.error().message;
}

TEST(ResponsesRequestTest, NothingSaidIsTheDefaults) {
  const RequestDefaults defaults = {.sampling = {.temperature = 0.6, .max_tokens = 77},
                                    .encoding = {.thinking = ThinkingMode::kChat}};
  for (const char* fields :
       {R"("model": "m")", R"("tools": null, "tool_choice": null, "include": null, "text": null,
          "reasoning": null, "store": null, "previous_response_id": null, "background": false,
          "max_output_tokens": null, "instructions": null, "conversation": null, "user": 5)"}) {
    const ResponsesRequest request = WithFields(fields, defaults);
    EXPECT_EQ(request.chat.generation.sampling.temperature, 0.6);
    EXPECT_EQ(request.chat.generation.sampling.max_tokens, 77);
    EXPECT_EQ(request.chat.generation.sampling.top_logprobs, std::nullopt);
    EXPECT_EQ(request.chat.encoding.thinking, ThinkingMode::kChat);
    EXPECT_TRUE(request.chat.parallel_tool_calls);
    EXPECT_TRUE(request.context.store);
    EXPECT_FALSE(request.context.summarizes);
    EXPECT_FALSE(request.context.includes_encrypted_reasoning);
    ASSERT_EQ(request.chat.chat.messages.size(), 1u);
    EXPECT_EQ(request.chat.chat.messages[0].content, "Hi");
  }
}

TEST(ResponsesRequestTest, ReadsEveryField) {
  const ResponsesRequest request = WithFields(R"("model": "m", "instructions": "Be brief.",
      "temperature": 0, "top_p": 0.5, "max_output_tokens": 9, "top_logprobs": 4, "stream": true,
      "include": ["message.output_text.logprobs", "reasoning.encrypted_content",
                  "web_search_call.action.sources"],
      "reasoning": {"effort": "high", "summary": "auto"}, "parallel_tool_calls": false,
      "text": {"format": {"type": "text"}, "verbosity": "low"}, "store": false, "seed": 3,
      "truncation": "auto", "metadata": {"a": "b"}, "user": "u", "prompt_cache_key": "k",
      "client_metadata": {"x": 1}, "service_tier": "flex", "never_heard_of": [1])");
  const SamplingParameters& sampling = request.chat.generation.sampling;
  EXPECT_EQ(request.chat.generation.model, "m");
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_EQ(sampling.top_p, 0.5);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.top_logprobs, 4);
  EXPECT_EQ(sampling.seed, 3u);
  EXPECT_TRUE(request.chat.generation.stream);
  EXPECT_FALSE(request.chat.parallel_tool_calls);
  EXPECT_EQ(request.chat.encoding.effort, "high");
  EXPECT_FALSE(request.context.store);
  EXPECT_TRUE(request.context.input.empty()) << "nothing to keep";
  EXPECT_TRUE(request.context.summarizes);
  EXPECT_TRUE(request.context.includes_encrypted_reasoning);
  EXPECT_EQ(request.chat.chat.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.chat.chat.messages[0].content, "Be brief.");
  EXPECT_EQ(WriteJson(request.context.echo),
            R"({"instructions":"Be brief.","max_output_tokens":9,"max_tool_calls":null,)"
            R"("metadata":{"a":"b"},"parallel_tool_calls":false,"previous_response_id":null,)"
            R"("prompt_cache_key":"k","reasoning":{"effort":"high","summary":"auto"},)"
            R"("safety_identifier":null,"service_tier":"default","store":false,)"
            R"("text":{"format":{"type":"text"},"verbosity":"low"},"tool_choice":"auto",)"
            R"("tools":[],"truncation":"auto","user":"u"})");
}

TEST(ResponsesRequestTest, EchoIsJsonWhateverTheClientSent) {
  for (const char* value : {"NaN", "1E400", R"("\ud800")", "[[1]]", "123456789012345678901"}) {
    const ResponsesRequest request = WithFields(std::string(R"("metadata": {"a": )") + value + "}");
    const std::string echo = WriteJson(request.context.echo);
    EXPECT_TRUE(Json::accept(echo)) << echo;
  }
}

// Codex sends such a request before its first real one.
TEST(ResponsesRequestTest, TheProbeOfCodex) {
  const auto probe = [](const std::string& fields) {
    return ParseWholeBody(R"({"max_output_tokens": 1, )" + fields + "}").chat.chat.messages;
  };
  const auto empty_text = probe(R"("instructions": "i", "input": "")");
  ASSERT_EQ(empty_text.size(), 2u);
  EXPECT_EQ(empty_text[1].role, Role::kUser);
  EXPECT_EQ(empty_text[1].content, "");
  const auto no_items = probe(R"("instructions": "i", "input": [])");
  ASSERT_EQ(no_items.size(), 1u) << "as of a system item alone";
  EXPECT_EQ(no_items[0].role, Role::kSystem);
  EXPECT_EQ(no_items[0].content, "i");
  const auto developer = probe(R"("input": [{"role": "developer", "content": "d"}])");
  ASSERT_EQ(developer.size(), 1u);
  EXPECT_EQ(developer[0].role, Role::kUser);
  EXPECT_EQ(developer[0].content, "d");
  const auto nothing = probe(R"("input": [])");
  ASSERT_EQ(nothing.size(), 1u);
  EXPECT_EQ(nothing[0].role, Role::kUser);
}

// The model begins another turn, without an empty one of the user before it.
TEST(ResponsesRequestTest, AnAnswerAtTheEndIsFollowedByAnother) {
  for (const char* last :
       {R"({"role": "assistant", "content": "b"})",
        R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})"}) {
    const ResponsesRequest request = ParseWholeBody(
        std::string(R"({"input": [{"role": "user", "content": "a"}, )") + last + "]}");
    ASSERT_EQ(request.chat.chat.messages.size(), 2u) << last;
    EXPECT_EQ(request.chat.chat.messages[1].role, Role::kAssistant);
    EXPECT_TRUE(request.chat.encoding.begins_turn);
    EXPECT_FALSE(request.chat.chat.messages[1].leave_open);
  }
}

TEST(ResponsesRequestTest, Messages) {
  const auto messages = ReadMessages(R"(
      {"role": "system", "content": "a"},
      {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "b"}]},
      {"role": "user", "content": [{"type": "input_text", "text": "c"},
                                   {"type": "input_text", "text": "d"}]},
      {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
       "content": [{"type": "output_text", "text": "e", "annotations": []}]},
      {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "f"}]},
      {"role": "developer", "content": "g"})");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_EQ(messages[0].content, "a\n\nb");
  EXPECT_EQ(messages[1].content, "c\n\nd");
  EXPECT_EQ(messages[2].role, Role::kAssistant);
  EXPECT_EQ(messages[2].content, "e\n\nf");
  EXPECT_EQ(messages[3].role, Role::kUser) << "a developer's message is text of the user's turn";
  EXPECT_EQ(messages[3].content, "g");
}

TEST(ResponsesRequestTest, ItemsOfOneTurnAreOneMessage) {
  const std::string turn = R"(
      {"type": "reasoning", "id": "rs_1", "summary": [], "content":
          [{"type": "reasoning_text", "text": "r"}]},
      {"type": "message", "role": "assistant", "content": "I look."},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1.0}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "namespace": "ns", "arguments": ""},
      {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": "a\n\"b\""},
      {"type": "local_shell_call", "id": "c4", "status": "completed",
       "action": {"type": "exec", "command": ["ls", "-l"]}})";
  const auto messages = ReadMessages(turn + R"(,
      {"type": "function_call_output", "call_id": "c1", "output": "one"},
      {"type": "function_call_output", "call_id": "c2", "output":
          [{"type": "input_text", "text": "two"}, {"type": "input_image", "image_url": "x"}]},
      {"type": "custom_tool_call_output", "call_id": "c3", "output": {"ok": true}},
      {"type": "local_shell_call_output", "id": "c4", "output": ""})");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].reasoning_content, "r");
  EXPECT_EQ(messages[0].content, "I look.");
  ASSERT_EQ(messages[0].tool_calls.size(), 4u);
  EXPECT_EQ(messages[0].tool_calls[0].arguments, "{\"a\": 1.0}");
  EXPECT_EQ(messages[0].tool_calls[1].name, "ns__g");
  EXPECT_EQ(messages[0].tool_calls[1].arguments, "{}");
  EXPECT_EQ(messages[0].tool_calls[2].arguments, R"({"input": "a\n\"b\""})");
  EXPECT_EQ(messages[0].tool_calls[3].name, "local_shell");
  EXPECT_EQ(messages[0].tool_calls[3].arguments, R"({"type": "exec", "command": ["ls", "-l"]})");
  EXPECT_EQ(messages[1].role, Role::kTool);
  EXPECT_EQ(messages[1].tool_call_id, "c1");
  EXPECT_EQ(messages[2].content, "two\n\n[Unsupported input_image]");
  EXPECT_EQ(messages[3].content, "{\"ok\": true}");
  EXPECT_EQ(messages[4].tool_call_id, "c4");
  // Reasoning behind an answer begins the next one.
  const auto more = ReadMessages(turn + "," + R"({"type": "reasoning", "summary": []})");
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[1].role, Role::kAssistant);
}

TEST(ResponsesRequestTest, ReasoningInAnyOfItsForms) {
  const auto reasoning_of = [](const std::string& fields) {
    return ReadMessages(R"({"type": "reasoning", )" + fields + "}")[0].reasoning_content;
  };
  const std::string summary = R"("summary": [{"type": "summary_text", "text": "s"}])";
  EXPECT_EQ(reasoning_of(summary), "s");
  EXPECT_EQ(reasoning_of(summary + R"(, "content": null, "encrypted_content": null)"), "s");
  const std::string content = R"("content": [{"type": "reasoning_text", "text": "c"}], )" + summary;
  EXPECT_EQ(reasoning_of(content), "c");
  const std::string token = MakeReasoningToken("Hmm, ☺ \"so\"\n");
  EXPECT_EQ(reasoning_of(content + R"(, "encrypted_content": ")" + token + "\""),
            "Hmm, ☺ \"so\"\n");
  EXPECT_EQ(reasoning_of(content + R"(, "encrypted_content": "gAAAAABo")"), "c") << "another's";
  EXPECT_EQ(reasoning_of(R"("encrypted_content": ")" + token.substr(4) + "\""), "");
}

TEST(ReasoningTokenTest, EveryDamageIsSeen) {
  for (const std::string text : {"", "a", "ab", "abc", "Ünicode ☺"}) {
    const std::string token = MakeReasoningToken(text);
    EXPECT_EQ(ReadReasoningToken(token), text);
    for (std::size_t i = 0; i < token.size(); ++i) {
      EXPECT_EQ(ReadReasoningToken(token.substr(0, i)), std::nullopt);
      std::string changed = token;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      // The last digits may hold bits that belong to no byte.
      const std::optional<std::string> read = ReadReasoningToken(changed);
      EXPECT_TRUE(!read || read == text) << changed;
    }
  }
  EXPECT_EQ(ReadReasoningToken(""), std::nullopt);
  EXPECT_EQ(ReadReasoningToken(MakeReasoningToken("\xff")), std::nullopt) << "not UTF-8";
}

TEST(ResponsesRequestTest, WhatOnlyOpenAiRunsIsLeftOut) {
  const auto messages = ReadMessages(R"({"role": "user", "content": "a"},
      {"type": "web_search_call", "id": "ws", "action": {"type": "search"}},
      {"type": "compaction", "encrypted_content": "gAAAA"},
      {"type": "compaction", "encrypted_content": ")" +
                                     MakeReasoningToken("what was said") + "\"}");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].content, "what was said");
}

TEST(ResponsesRequestTest, ToolsKeepTheirKeysAndDigits) {
  const ResponsesRequest request = WithFields(R"("tools": [
      {"type": "function", "strict": false, "name": "f",  "parameters":
          {"type":"object", "properties": {"b": {"maximum": 1.50}, "a": {"const": 1E400}}}},
      {"type": "web_search"}, {"type": "image_generation"},
      {"type": "namespace", "name": "ns", "description": "d", "tools": [
          {"type": "function", "name": "g", "description": null}, {"type": "tool_search"}]},
      {"type": "custom", "name": "apply_patch", "description": "Edits \"files\".",
       "format": {"type": "grammar", "syntax": "lark", "definition": "start: x\n"}}])");
  const std::vector<ToolSpec>& tools = request.chat.chat.tools;
  ASSERT_EQ(tools.size(), 3u);
  EXPECT_EQ(tools[0].function_json,
            R"({"strict": false, "name": "f", "parameters": {"type":"object", "properties": )"
            R"({"b": {"maximum": 1.50}, "a": {"const": 1E400}}}})");
  EXPECT_EQ(tools[1].function_json, R"({"name": "ns__g", "description": null})");
  EXPECT_EQ(tools[2].function_json,
            R"({"name": "apply_patch", "description": "Edits \"files\".", "parameters": )"
            R"({"type": "object", "properties": {"input": {"type": "string", "description": )"
            R"("The whole input of the tool, as plain text. It must match this lark grammar:\n)"
            R"(start: x\n"}}, "required": ["input"]}})");
  ASSERT_EQ(request.context.client_tools.size(), 2u);
  EXPECT_EQ(request.context.client_tools.at("ns__g").space, "ns");
  EXPECT_EQ(request.context.client_tools.at("ns__g").name, "g");
  EXPECT_EQ(request.context.client_tools.at("apply_patch").kind, ToolKind::kCustom);
}

// The functions have the published parameters of the tools.
TEST(ResponsesRequestTest, ToolsThatClientsRunAreFunctions) {
  const ResponsesRequest request = WithFields(R"("tools": [{"type": "local_shell"},
      {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}])");
  const std::vector<ToolSpec>& tools = request.chat.chat.tools;
  ASSERT_EQ(tools.size(), 3u);
  const std::vector<std::vector<std::string>> required = {
      {"command"}, {"commands"}, {"type", "path"}};
  const ToolKind kinds[] = {ToolKind::kLocalShell, ToolKind::kShell, ToolKind::kApplyPatch};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json json = Json::parse(tools[i].function_json, nullptr, false);
    EXPECT_EQ(json["name"], tools[i].name);
    EXPECT_EQ(json["parameters"]["required"], Json(required[i])) << tools[i].function_json;
    EXPECT_EQ(request.context.client_tools.at(tools[i].name).kind, kinds[i]);
  }
}

TEST(ResponsesRequestTest, CallsOfTheShellAndThePatchToolComeBack) {
  const auto messages = ReadMessages(R"(
      {"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed", "action":
          {"commands": ["ls", "pwd"], "timeout_ms": null, "max_output_length": 10.0}},
      {"type": "apply_patch_call", "call_id": "c2", "operation":
          {"type": "delete_file", "path": "a"}},
      {"type": "local_shell_call", "id": "lsh_1", "call_id": "c3", "action":
          {"type": "exec", "command": ["ls"], "env": {}, "user": null}},
      {"type": "shell_call_output", "call_id": "c1", "max_output_length": 10, "output": [
          {"stdout": "x\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
      {"type": "apply_patch_call_output", "call_id": "c2", "status": "failed", "output": "no a"},
      {"type": "local_shell_call_output", "id": "lsh_1", "output": "y"})");
  ASSERT_EQ(messages.size(), 4u);
  const std::vector<ToolCall>& calls = messages[0].tool_calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].name, "shell");
  EXPECT_EQ(calls[0].arguments, R"({"commands": ["ls", "pwd"], "max_output_length": 10.0})");
  EXPECT_EQ(calls[1].name, "apply_patch");
  EXPECT_EQ(calls[1].arguments, R"({"type": "delete_file", "path": "a"})");
  EXPECT_EQ(calls[2].arguments, R"({"type": "exec", "command": ["ls"], "env": {}})");
  EXPECT_EQ(messages[1].content,
            R"([{"stdout": "x\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}])");
  EXPECT_EQ(messages[2].content, "failed\n\nno a");
  EXPECT_EQ(messages[3].tool_call_id, "c3") << "by the id of the item";
}

TEST(ResponsesRequestTest, ToolChoice) {
  const std::string tools = R"("tools": [{"type": "function", "name": "f"}], "tool_choice": )";
  EXPECT_EQ(WithFields(tools + R"("auto")").chat.chat.tools.size(), 1u);
  EXPECT_EQ(WithFields(tools + R"({"type": "allowed_tools", "mode": "auto", "tools": []})")
                .chat.tool_choice.kind,
            ToolChoice::Kind::kAuto);
  const ResponsesRequest none = WithFields(tools + R"("none")");
  EXPECT_EQ(none.chat.tool_choice.kind, ToolChoice::Kind::kNone);
  EXPECT_TRUE(none.chat.chat.tools.empty());
  EXPECT_TRUE(none.context.client_tools.empty());
}

struct BadRequest {
  const char* body;
  const char* message;
};
void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.message; }

class BadResponsesRequestTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadResponsesRequestTest, NamesTheField) {
  EXPECT_EQ(MessageOfError(GetParam().body), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Items, BadResponsesRequestTest,
    ::testing::Values(
        BadRequest{"{}", "input: expected a string or a list of items, found nothing"},
        BadRequest{R"({"input": 5})", "input: expected a string or a list of items, found 5"},
        BadRequest{R"({"input": [5]})", "input[0]: expected an object, found 5"},
        BadRequest{R"({"input": [{}]})",
                   "input[0].type: expected message, function_call, function_call_output or "
                   "another kind of item, found nothing"},
        BadRequest{R"({"input": [{"role": "bard", "content": ""}]})",
                   "input[0].role: expected one of user, assistant, system, developer, found "
                   "\"bard\""},
        BadRequest{R"({"input": [{"role": "user"}, {"role": "user", "content": [
                       {"type": "input_text", "text": ""}, {"type": "input_image"}]}]})",
                   "input[1].content[1].type: expected text (this model reads text only and does "
                   "not support images), found \"input_image\""},
        BadRequest{R"({"input": [{"role": "user", "content": [{"type": "input_text"}]}]})",
                   "input[0].content[0].text: expected a string, found nothing"},
        BadRequest{R"({"input": [{"role": "user", "content": 5}]})",
                   "input[0].content: expected a string or a list of parts, found 5"},
        BadRequest{R"({"input": [{"type": "item_reference", "id": "msg_1"}]})",
                   "input[0].id: expected the id of an item of a stored response, found "
                   "\"msg_1\""},
        BadRequest{R"({"input": [{"id": "msg_1"}]})",
                   "input[0].id: expected the id of an item of a stored response, found "
                   "\"msg_1\""},
        BadRequest{R"({"input": "", "previous_response_id": "resp_1"})",
                   "previous_response_id: expected the id of a stored response (only the latest "
                   "are kept, and none with store: false), found \"resp_1\""}));

INSTANTIATE_TEST_SUITE_P(
    Fields, BadResponsesRequestTest,
    ::testing::Values(
        BadRequest{R"({"input": "", "tools": {}})",
                   "tools: expected a list of tools, found an "
                   "object"},
        BadRequest{R"({"input": "", "tools": [{"name": "f"}]})",
                   "tools[0]: expected an object with a type, found an object"},
        BadRequest{R"({"input": "", "tools": [{"type": "function"}]})",
                   "tools[0].name: expected a string that is not empty, found nothing"},
        BadRequest{R"({"input": "", "tools": [{"type": "namespace", "name": "n", "tools": [
                       {"type": "custom", "name": 5}]}]})",
                   "tools[0].tools[0].name: expected a string that is not empty, found 5"},
        BadRequest{R"({"input": "", "tools": [{"type": "namespace", "name": "n", "tools": []}]})",
                   "tools[0].tools: expected a list of at least one tool, found an empty list"},
        BadRequest{R"({"input": "", "tools": [{"type": "function", "name": "f", "strict": {}}]})",
                   "tools[0].strict: expected true or false, found an object"},
        BadRequest{R"({"input": "", "tools": [{"type": "custom", "name": "f", "description": 5}]})",
                   "tools[0].description: expected a string, found 5"},
        BadRequest{R"({"input": [{"type": "", "role": "user"}]})",
                   "input[0].type: expected message, function_call, function_call_output or "
                   "another kind of item, found nothing"},
        BadRequest{R"({"input": [{"type": "reasoning", "content": "a", "summary": 5}]})",
                   "input[0].summary: expected a string or a list of parts, found 5"},
        BadRequest{R"({"input": "", "tools": [
                       {"type": "function", "name": "a"}, {"type": "function", "name": "b"},
                       {"type": "function", "name": "c"}, {"type": "function", "name": "d"}]})",
                   "tools: expected at most 3, found more"},
        BadRequest{R"({"input": "", "tool_choice": "any"})",
                   "tool_choice: expected none, auto, required, or a function or custom tool, "
                   "found \"any\""},
        BadRequest{R"({"input": "", "tool_choice": {"type": "function", "name": "f"}})",
                   "tool_choice.name: expected the name of one of the tools, found \"f\""},
        BadRequest{R"({"input": "", "max_output_tokens": 0})",
                   "max_output_tokens: expected an integer of at least 1, found 0"},
        BadRequest{R"({"input": "", "top_logprobs": 21})",
                   "top_logprobs: expected an integer from 0 to 20, found 21"},
        BadRequest{R"({"input": "", "include": "x"})", "include: expected a list, found \"x\""},
        BadRequest{R"({"input": "", "include": [5]})", "include[0]: expected a string, found 5"},
        BadRequest{R"({"input": "", "include": ["else"]})",
                   "include[0]: expected one of reasoning.encrypted_content, "
                   "message.output_text.logprobs, code_interpreter_call.outputs, "
                   "computer_call_output.output.image_url, file_search_call.results, "
                   "message.input_image.image_url, web_search_call.action.sources, "
                   "web_search_call.results, found \"else\""},
        BadRequest{R"({"input": "", "reasoning": "high"})",
                   "reasoning: expected an object, found \"high\""},
        BadRequest{R"({"input": "", "reasoning": {"effort": 5}})",
                   "reasoning.effort: expected a string, found 5"},
        BadRequest{R"({"input": "", "tools": [{"type": "shell",
                       "environment": {"type": "container_auto"}}]})",
                   "tools[0].environment: this server runs no shells; only the local one of the "
                   "client can be offered"},
        BadRequest{R"({"input": "", "text": "t"})", "text: expected an object, found \"t\""},
        BadRequest{R"({"input": "", "text": {"format": {"type": "xml"}}})",
                   "text.format.type: expected text, json_object or json_schema, found \"xml\""},
        BadRequest{R"({"input": "", "n": 2})", "n: expected 1: a response is one answer, found 2"},
        BadRequest{R"({"input": "", "instructions": ["i"]})",
                   "instructions: expected a string, found a list"},
        BadRequest{R"({"input": "", "temperature": 3})",
                   "temperature: expected a number from 0 to 2, found 3"}));

TEST(ResponsesRequestTest, WhatIsNotThereYetSaysSo) {
  for (const std::string fields : {R"("background": true)", R"("conversation": "conv_1")"}) {
    const auto request =
        ParseResponsesRequest(R"({"input": "", )" + fields + "}", kResponsesLimits, {}, nullptr);
    ASSERT_FALSE(request) << fields;
    EXPECT_EQ(request.error().code, ErrorCode::kUnsupported) << fields;
    EXPECT_THAT(request.error().message, HasSubstr("not supported"));
  }
  EXPECT_EQ(MessageOfError(R"({"input": "", "text": {"format": {"type": "json_schema"}}})"),
            "text.format.schema: expected a JSON schema, found nothing");
}

}  // namespace
}  // namespace fathom::api
