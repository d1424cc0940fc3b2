#include "chat/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "chat/literals.h"

namespace fathom::chat {
namespace {

std::string ErrorFrom(std::string_view json) {
  const Result<ChatRequest> request = ParseChatRequest(json);
  if (request) return "no error";
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
  return request.error().message;
}

Message Only(std::string_view json, const MessageOptions& options = {}) {
  const Result<ChatRequest> request = ParseChatRequest(json, options);
  EXPECT_TRUE(request) << request.error().message;
  if (!request || request->messages.size() != 1) return {};
  return request->messages.front();
}

TEST(Messages, ErrorsNameTheField) {
  EXPECT_EQ(ErrorFrom(R"([{"role":"user"},{"role":"user"},{"role":"assistent"}])"),
            "messages[2].role: expected one of system, user, assistant, tool, latest_reminder, "
            "developer, found \"assistent\"");
  EXPECT_EQ(ErrorFrom(R"([{"content":"x"}])"),
            "messages[0].role: expected one of system, user, assistant, tool, latest_reminder, "
            "developer, found nothing");
  EXPECT_EQ(ErrorFrom(R"([1])"), "messages[0]: expected an object, found a number");
  EXPECT_EQ(ErrorFrom(R"("x")"), "messages: expected a list of messages, found \"x\"");
  EXPECT_EQ(ErrorFrom(R"({"tools":[]})"), "messages: expected a list of messages, found nothing");
  EXPECT_EQ(ErrorFrom("[{"),
            "messages: JSON, byte 2: expected a key in quotes, found the end of the text");
  EXPECT_EQ(ErrorFrom(R"([{"role":"user","content":5}])"),
            "messages[0].content: expected a string, a list of parts or null, found a number");
  EXPECT_EQ(
      ErrorFrom(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
      "messages[0].content[0].type: expected text (this model reads text only and does not support "
      "images), found \"image_url\"");
  EXPECT_EQ(ErrorFrom(R"([{"role":"user","content":[{"type":"text","text":{}}]}])"),
            "messages[0].content[0].text: expected a string, found an object");
  EXPECT_EQ(ErrorFrom(R"([{"role":"assistant","tool_calls":[{"id":"c"}]}])"),
            "messages[0].tool_calls[0].function: expected an object, found nothing");
  EXPECT_EQ(ErrorFrom(R"({"messages":[],"tools":[{"function":{"name":""}}]})"),
            "tools[0].function.name: expected a string that is not empty, found \"\"");
  EXPECT_EQ(ErrorFrom(R"([{"role":"user","task":"x"}])"),
            "messages[0].task: expected one of action, query, authority, domain, title, read_url, "
            "found \"x\"");
  EXPECT_EQ(ErrorFrom(R"([{"role":"user","wo_eos":"yes"}])"),
            "messages[0].wo_eos: expected true or false, found \"yes\"");
  EXPECT_EQ(ErrorFrom(R"({"messages":[],"tools":[{"type":"retrieval"}]})"),
            "tools[0].type: expected function or custom, found \"retrieval\"");
  EXPECT_EQ(ErrorFrom(R"({"messages":[],"tools":{}})"),
            "tools: expected a list of tools, found an object");
  EXPECT_EQ(ErrorFrom(R"({"messages":[],"response_format":"json"})"),
            "response_format: expected an object, found \"json\"");
}

TEST(Messages, Content) {
  EXPECT_EQ(Only(R"([{"role":"user","content":null}])").content, "");
  EXPECT_EQ(Only(R"([{"role":"user"}])").content, "");
  EXPECT_EQ(Only(R"([{"role":"user","content":" a\n"}])").content, " a\n");
  EXPECT_EQ(Only(R"([{"role":"user","content":[{"type":"text","text":"a"},
                     {"type":"input_text","text":"b"}]}])")
                .content,
            "a\n\nb");
  EXPECT_EQ(Only(R"([{"role":"user","content":[]}])").content, "");
}

// A client cannot take back what a broken answer left in its history.
TEST(Messages, NamesAndIdsOfCallsMayBeEmpty) {
  const Message message = Only(R"([{"role":"assistant","content":null,"tool_calls":[
      {"id":"","type":"function","function":{"name":"","arguments":"{}"}},
      {"function":{"name":null}}]}])");
  ASSERT_EQ(message.tool_calls.size(), 2U);
  EXPECT_EQ(message.tool_calls[0].name, "");
  EXPECT_EQ(message.tool_calls[0].id, "");
  EXPECT_EQ(message.tool_calls[1].arguments, "{}");
  EXPECT_TRUE(Only(R"([{"role":"assistant","tool_calls":[]}])").tool_calls.empty());
  EXPECT_TRUE(Only(R"([{"role":"assistant","tool_calls":null}])").tool_calls.empty());
}

TEST(Messages, ToolContent) {
  const Message object = Only(R"([{"role":"tool","tool_call_id":"c","content":{"b":1,"a":1E2}}])");
  EXPECT_EQ(object.content, R"({"b": 1, "a": 100.0})");
  EXPECT_EQ(object.tool_call_id, "c");
  EXPECT_EQ(
      Only(R"([{"role":"tool","content":[{"type":"text","text":"a"},{"type":"image"}]}])").content,
      "a\n\n[Unsupported image]");
}

TEST(Messages, Arguments) {
  const auto arguments = [](std::string_view json) {
    const Message message =
        Only(std::string(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f")")
                 .append(json)
                 .append("}}]}]"));
    EXPECT_EQ(message.tool_calls.size(), 1U);
    return message.tool_calls.empty() ? "" : message.tool_calls.front().arguments;
  };
  EXPECT_EQ(arguments(""), "{}");
  EXPECT_EQ(arguments(R"(,"arguments":null)"), "{}");
  EXPECT_EQ(arguments(R"(,"arguments":"")"), "{}");
  EXPECT_EQ(arguments(R"(,"arguments":"null")"), "{}");
  EXPECT_EQ(arguments(R"(,"arguments":"{\"a\": 1.50}")"), R"({"a": 1.50})");
  EXPECT_EQ(arguments(R"(,"arguments":{"a":1.50})"), R"({"a":1.50})");
  EXPECT_EQ(arguments(R"(,"arguments":"\"{\\\"a\\\": 1}\"")"), R"({"a": 1})");
  EXPECT_EQ(arguments(R"(,"arguments":"not json")"), "not json");
}

TEST(Messages, Reasoning) {
  const auto reasoning = [](std::string_view fields) {
    return Only(std::string(R"([{"role":"assistant",)").append(fields).append("}]"))
        .reasoning_content;
  };
  EXPECT_EQ(reasoning(R"("reasoning_content":"a")"), "a");
  EXPECT_EQ(reasoning(R"("reasoning":"a")"), "a");
  EXPECT_EQ(reasoning(R"("reasoning_content":null,"reasoning":"a")"), "a");
  EXPECT_EQ(reasoning(R"("reasoning_details":[{"text":"a"},{"text":"b"}])"), "ab");
  EXPECT_EQ(reasoning(R"("content":[{"type":"thinking","thinking":"a"},
                                    {"type":"text","text":"x"}])"),
            "a");
  EXPECT_EQ(reasoning(R"("content":[{"type":"thinking","thinking":"a"},
                                    {"type":"thinking","thinking":"b"}])"),
            "a\n\nb");
}

TEST(Messages, RefusalsOfAnAssistantAreItsText) {
  const Message refused = Only(R"([{"role":"assistant","content":[
      {"type":"text","text":"x"},{"type":"refusal","refusal":"y"}]}])");
  EXPECT_EQ(refused.content, std::string("x").append(kBlockJoiner).append("y"));
  EXPECT_FALSE(
      ParseChatRequest(R"([{"role":"user","content":[{"type":"refusal","refusal":"y"}]}])"));
  EXPECT_FALSE(
      ParseChatRequest(R"([{"role":"assistant","content":[{"type":"refusal","text":"y"}]}])"));
}

TEST(Messages, DeveloperIsSystemUnlessNative) {
  const std::string_view json = R"([{"role":"developer","content":"x"}])";
  EXPECT_EQ(Only(json).role, Role::kSystem);
  EXPECT_EQ(Only(json, {.developer_is_system = false}).role, Role::kDeveloper);
}

TEST(Messages, PrefixLeavesTheTurnOpen) {
  EXPECT_TRUE(Only(R"([{"role":"assistant","content":"x","prefix":true}])").leave_open);
  EXPECT_FALSE(Only(R"([{"role":"user","content":"x","prefix":true}])").leave_open);
}

TEST(Messages, ToolsKeepTheirText) {
  const Result<ChatRequest> request = ParseChatRequest(
      R"({"messages":[],"tools":[{"type":"function","function":{ "x":1E2,"name":"f" }}],
          "response_format":{"type":"json_object"}})");
  ASSERT_TRUE(request);
  ASSERT_EQ(request->tools.size(), 1U);
  EXPECT_EQ(request->tools.front().name, "f");
  EXPECT_EQ(request->tools.front().function_json, R"({ "x":1E2,"name":"f" })");
  EXPECT_EQ(request->response_format, R"({"type":"json_object"})");
  EXPECT_FALSE(ParseChatRequest(R"({"messages":[],"response_format":{"type":"text"}})")
                   ->response_format.has_value());
}

TEST(Messages, FunctionsMayStandWithoutTheirObject) {
  const Result<std::vector<ToolSpec>> tools = ParseTools(
      R"([{"type":"function","name":"f","parameters":{"a" : 1.0},"strict":true},{"name":"g"}])");
  ASSERT_TRUE(tools) << tools.error().message;
  EXPECT_EQ(tools->at(0).name, "f");
  EXPECT_EQ(tools->at(0).function_json,
            R"({"name": "f", "parameters": {"a" : 1.0}, "strict": true})");
  EXPECT_EQ(tools->at(0).path, "tools[0].parameters");
  EXPECT_TRUE(tools->at(0).strict);
  EXPECT_EQ(tools->at(1).name, "g");
}

TEST(Messages, CustomToolsAreFunctionsOfOneText) {
  const Result<std::vector<ToolSpec>> tools = ParseTools(R"([
      {"type":"custom","custom":{"name":"c","description":"d","format":{"type":"grammar",
          "grammar":{"syntax":"regex","definition":"[a-z]+"}}}},
      {"type":"custom","name":"flat","format":{"type":"text"}},
      {"type":"custom","custom":{"name":"l","format":
          {"type":"grammar","syntax":"lark","definition":"start: /.+/"}}}])");
  ASSERT_TRUE(tools) << tools.error().message;
  EXPECT_EQ(tools->at(0).text_parameter, "input");
  EXPECT_EQ(tools->at(0).text_regex, "[a-z]+");
  EXPECT_EQ(tools->at(0).path, "tools[0].custom.format.grammar.definition");
  EXPECT_EQ(tools->at(0).function_json,
            R"({"name": "c", "description": "d", "parameters": {"type": "object", "properties": )"
            R"({"input": {"type": "string", "description": "The whole input of the tool, as plain )"
            R"(text. It must match this regex grammar:\n[a-z]+"}}, "required": ["input"]}})");
  EXPECT_EQ(tools->at(1).name, "flat");
  EXPECT_EQ(tools->at(1).text_regex, "");
  EXPECT_EQ(tools->at(2).text_regex, "") << "only shown";
  const auto error_of = [](std::string_view format) {
    return ParseTools(
               fmt::format(R"([{{"type":"custom","custom":{{"name":"c","format":{}}}}}])", format))
        .error()
        .message;
  };
  EXPECT_EQ(error_of("5"), "tools[0].custom.format: expected an object, found a number");
  EXPECT_EQ(error_of(R"({"type":"grammar","grammar":{"syntax":"gbnf"}})"),
            "tools[0].custom.format.grammar.syntax: expected lark or regex, found \"gbnf\"");
  EXPECT_EQ(ParseTools(R"([{"type":"custom"}])").error().message,
            "tools[0].custom: expected an object, found nothing");
}

TEST(Messages, CallsOfCustomTools) {
  const Message message = Only(R"([{"role":"assistant","tool_calls":[
      {"id":"c1","type":"custom","custom":{"name":"apply_patch","input":"*** \"Begin\"\n"}}]}])");
  ASSERT_EQ(message.tool_calls.size(), 1U);
  EXPECT_EQ(message.tool_calls[0].id, "c1");
  EXPECT_EQ(message.tool_calls[0].name, "apply_patch");
  EXPECT_EQ(message.tool_calls[0].arguments, R"({"input": "*** \"Begin\"\n"})");
}

TEST(Messages, ListOfTools) {
  const Result<std::vector<ToolSpec>> tools = ParseTools(R"([{"function":{"name":"f"}}])");
  ASSERT_TRUE(tools);
  EXPECT_EQ(tools->front().name, "f");
  EXPECT_EQ(ParseTools("[{}]", "--tools").error().message,
            "--tools[0].function: expected an object, found nothing");
}

}  // namespace
}  // namespace fathom::chat
