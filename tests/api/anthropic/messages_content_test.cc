#include "api/anthropic/messages_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Conversation {
  std::vector<Message> messages;
  std::string error;
};

Conversation Read(const std::string& body, bool stable_system = true) {
  const Result<JsonValue> json = ParseJson(body);
  EXPECT_TRUE(json) << body;
  if (!json) return {};
  FieldReader reader(*json);
  OfferedTools tools({});
  Conversation conversation = {
      .messages = ReadConversation(reader, body, {.stable_system = stable_system}, &tools)};
  if (reader.error()) {
    EXPECT_EQ(reader.error()->code, ErrorCode::kInvalidArgument);
    conversation.error = reader.error()->message;
  }
  return conversation;
}

// Reads a body with one user message after these fields.
std::vector<Message> ReadSystem(const std::string& system, bool stable_system = true) {
  const Conversation read =
      Read(R"({"messages": [{"role": "user", "content": "Hi"}], "system": )" + system + "}",
           stable_system);
  EXPECT_EQ(read.error, "") << system;
  return read.messages;
}

// The content of a message after one of a user.
std::vector<Message> ReadTurn(const std::string& role, const std::string& content) {
  const Conversation read = Read(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": ")" +
                                 role + R"(", "content": )" + content + "}]}");
  EXPECT_EQ(read.error, "") << content;
  return {read.messages.begin() + 1, read.messages.end()};
}

TEST(MessagesContentTest, SystemIsOneMessage) {
  EXPECT_THAT(ReadSystem("null"), SizeIs(1));
  EXPECT_THAT(ReadSystem(R"("")"), SizeIs(1));
  EXPECT_THAT(ReadSystem("[]"), SizeIs(1));
  std::vector<Message> messages = ReadSystem(R"(" Be kind.\n")");
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_EQ(messages[0].content, " Be kind.\n");
  EXPECT_EQ(messages[1].content, "Hi");
  messages = ReadSystem(R"([{"type": "text", "text": "a "}, {"type": "text", "text": "b",
      "cache_control": {"type": "ephemeral"}}])");
  EXPECT_EQ(messages[0].content, "a \n\nb");
}

TEST(MessagesContentTest, SystemMessagesAtTheStartJoinIt) {
  const Conversation read = Read(R"({"system": "a", "messages": [
      {"role": "system", "content": [{"type": "text", "text": "b"}]},
      {"role": "system", "content": "x-anthropic-billing-header: cch=1"},
      {"role": "system", "content": "c"}, {"role": "user", "content": "Hi"},
      {"role": "system", "content": "d"}, {"role": "system", "content": "e"}]})");
  EXPECT_EQ(read.error, "");
  ASSERT_THAT(read.messages, SizeIs(4));
  EXPECT_EQ(read.messages[0].content, "a\n\nb\n\nc");
  EXPECT_EQ(read.messages[2].role, Role::kSystem) << "in the middle it is a turn of its own";
  EXPECT_EQ(read.messages[2].content, "d");
  EXPECT_EQ(read.messages[3].content, "e");
}

// Parts that differ between the requests of one conversation must not be at the head of the prompt.
TEST(MessagesContentTest, VolatilePartsOfTheSystemAreLeftOut) {
  const char* first = R"([{"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
      {"type": "text", "text": "You are", "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "kind.\n\n<total_tokens>99 tokens left</total_tokens>"}])";
  const char* second = R"([{"type": "text", "text": "x-anthropic-billing-header: cch=2;"},
      {"type": "text", "text": "You are"},
      {"type": "text", "text": "kind."},
      {"type": "text", "text": "<total_tokens>7 tokens left</total_tokens>"}])";
  EXPECT_EQ(ReadSystem(first)[0].content, "You are\n\nkind.");
  EXPECT_EQ(ReadSystem(second)[0].content, "You are\n\nkind.");
  EXPECT_EQ(ReadSystem(first, false)[0].content,
            "x-anthropic-billing-header: cch=1;\n\nYou are\n\nkind.\n\n"
            "<total_tokens>99 tokens left</total_tokens>");
}

TEST(MessagesContentTest, TextOfAUser) {
  EXPECT_EQ(ReadTurn("user", R"(" a ")")[0].content, " a ");
  EXPECT_EQ(ReadTurn("user", R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])")[0]
                .content,
            "a\n\nb");
  EXPECT_THAT(ReadTurn("user", "[]"), SizeIs(1));
}

TEST(MessagesContentTest, ResultsComeBeforeTheText) {
  const std::vector<Message> messages = ReadTurn("user", R"([
      {"type": "text", "text": "before"},
      {"type": "tool_result", "tool_use_id": "b", "content": "rb", "is_error": true},
      {"type": "tool_result", "tool_use_id": "a"},
      {"type": "text", "text": "after"}])");
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[0].role, Role::kTool);
  EXPECT_EQ(messages[0].content, "rb") << "an error is told by its text";
  EXPECT_EQ(messages[0].tool_call_id, "b");
  EXPECT_EQ(messages[1].tool_call_id, "a");
  EXPECT_EQ(messages[1].content, "");
  EXPECT_EQ(messages[2].role, Role::kUser);
  EXPECT_EQ(messages[2].content, "before\n\nafter");
  EXPECT_THAT(ReadTurn("user", R"([{"type": "tool_result", "tool_use_id": "a"}])"), SizeIs(1))
      << "no empty turn of the user";
}

TEST(MessagesContentTest, ContentOfAResult) {
  const auto content_of = [](const std::string& content) {
    return ReadTurn("user", R"([{"type": "tool_result", "tool_use_id": "a", "content": )" +
                                content + "}]")[0]
        .content;
  };
  EXPECT_EQ(content_of("null"), "");
  EXPECT_EQ(content_of("[]"), "");
  EXPECT_EQ(content_of(R"(" x\n")"), " x\n");
  EXPECT_EQ(content_of(R"([{"type": "text", "text": "a"}, {"type": "image", "source": {}},
      {"type": "document", "source": {"type": "text", "data": "d"}},
      {"type": "document", "source": {"type": "base64", "data": "JVBE"}},
      {"type": "tool_reference", "tool_name": "f"}])"),
            "a\n\n[Unsupported image]\n\nd\n\n[Unsupported document]\n\nf");
}

TEST(MessagesContentTest, Documents) {
  const auto text_of = [](const std::string& document) {
    return ReadTurn("user", R"([{"type": "document", )" + document + "}]")[0].content;
  };
  EXPECT_EQ(text_of(R"("source": {"type": "text", "media_type": "text/plain", "data": "d"})"), "d");
  EXPECT_EQ(text_of(R"("title": "t", "context": "c", "source": {"type": "text", "data": "d"})"),
            "t\n\nc\n\nd");
  EXPECT_EQ(text_of(R"("title": null, "source": {"type": "content", "content": "s"})"), "s");
  EXPECT_EQ(text_of(R"("source": {"type": "content", "content": [{"type": "text", "text": "a"},
      {"type": "text", "text": "b"}]}, "citations": {"enabled": true})"),
            "a\n\nb");
}

TEST(MessagesContentTest, SearchResults) {
  const std::string result = R"({"type": "search_result", "source": "https://a.example",
      "title": "t", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
      "citations": {"enabled": true}})";
  EXPECT_EQ(ReadTurn("user", "[" + result + R"(, {"type": "text", "text": "q"}])")[0].content,
            "t\n\nhttps://a.example\n\na\n\nb\n\nq");
  EXPECT_EQ(ReadTurn("user", R"([{"type": "tool_result", "tool_use_id": "a", "content": [)" +
                                 result + "]}]")[0]
                .content,
            "t\n\nhttps://a.example\n\na\n\nb");
}

TEST(MessagesContentTest, TurnOfAnAssistant) {
  const std::vector<Message> messages = ReadTurn("assistant", R"([
      {"type": "thinking", "thinking": "r1", "signature": "anything"},
      {"type": "redacted_thinking", "data": "xx"},
      {"type": "thinking", "thinking": "r2"},
      {"type": "text", "text": "a"},
      {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
      {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x"}]},
      {"type": "mcp_tool_use", "id": "m"}, {"type": "mcp_tool_result"},
      {"type": "text", "text": "b"},
      {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x" : 1e0, "n":[ 10000000000000000000000 ]}},
      {"type": "tool_use", "id": "toolu_2", "name": "g"}])");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].role, Role::kAssistant);
  EXPECT_EQ(messages[0].content, "a\n\nb");
  EXPECT_EQ(messages[0].reasoning_content, "r1\n\nr2");
  ASSERT_THAT(messages[0].tool_calls, SizeIs(2));
  EXPECT_EQ(messages[0].tool_calls[0].id, "toolu_1");
  EXPECT_EQ(messages[0].tool_calls[0].name, "f");
  EXPECT_EQ(messages[0].tool_calls[0].arguments, R"({"x" : 1e0, "n":[ 10000000000000000000000 ]})")
      << "the client's own text";
  EXPECT_EQ(messages[0].tool_calls[1].arguments, "{}");
}

TEST(MessagesContentTest, TheLastTurnOfAnAssistantIsContinued) {
  EXPECT_TRUE(ReadTurn("assistant", R"("{")").back().leave_open);
  const Conversation read = Read(R"({"messages": [{"role": "assistant", "content": "a"},
      {"role": "user", "content": "b"}]})");
  EXPECT_FALSE(read.messages[0].leave_open);
  EXPECT_FALSE(read.messages[1].leave_open);
}

TEST(MessagesContentTest, ErrorsNameTheField) {
  const auto error_of = [](const std::string& fields) { return Read("{" + fields + "}").error; };
  const auto message_error = [&](const std::string& message) {
    return error_of(R"("messages": [{"role": "user", "content": "Hi"}, )" + message + "]");
  };
  const auto block_error = [&](const std::string& role, const std::string& block) {
    return message_error(R"({"role": ")" + role + R"(", "content": [)" + block + "]}");
  };
  EXPECT_EQ(error_of(""), "messages: expected a list of at least one message, found nothing");
  EXPECT_EQ(error_of(R"("messages": [])"),
            "messages: expected a list of at least one message, found an empty list");
  EXPECT_EQ(error_of(R"("messages": "Hi")"),
            R"(messages: expected a list of at least one message, found "Hi")");
  EXPECT_EQ(error_of(R"("system": 5, "messages": [])"),
            "system: expected a string or a list of blocks, found 5");
  EXPECT_EQ(error_of(R"("system": [{"type": "text", "text": "a"}, {"type": "image"}])"),
            R"(system[1].type: expected text, found "image")");
  EXPECT_EQ(message_error("7"), "messages[1]: expected an object, found 7");
  EXPECT_EQ(message_error(R"({"content": "a"})"),
            "messages[1].role: expected user, assistant or system, found nothing");
  EXPECT_EQ(message_error(R"({"role": "developer", "content": "a"})"),
            R"(messages[1].role: expected user, assistant or system, found "developer")");
  EXPECT_EQ(message_error(R"({"role": "user"})"),
            "messages[1].content: expected a string or a list of blocks, found nothing");
  EXPECT_EQ(message_error(R"({"role": "user", "content": {"type": "text"}})"),
            "messages[1].content: expected a string or a list of blocks, found an object");
  EXPECT_EQ(block_error("user", R"({"type": "text", "text": "a"}, {"type": "image"})"),
            "messages[1].content[1].type: expected text (this model reads text only and does not "
            R"(support images), found "image")");
  EXPECT_EQ(block_error("user", R"("a")"),
            R"(messages[1].content[0]: expected an object with a type, found "a")");
  EXPECT_EQ(block_error("user", R"({"text": "a"})"),
            "messages[1].content[0].type: expected the type of a block, found nothing");
  EXPECT_EQ(block_error("user", R"({"type": "text", "text": 5})"),
            "messages[1].content[0].text: expected a string, found 5");
  EXPECT_EQ(block_error("user", R"({"type": "text"})"),
            "messages[1].content[0].text: expected a string, found nothing");
  EXPECT_EQ(block_error("user", R"({"type": "tool_result", "content": [{"type": "text"}]})"),
            "messages[1].content[0].content[0].text: expected a string, found nothing");
  EXPECT_EQ(block_error("assistant", R"({"type": "thinking", "thinking": "a", "signature": 5})"),
            "messages[1].content[0].signature: expected a string, found 5");
  EXPECT_EQ(block_error("user", R"({"type": "document", "source": {"type": "base64"}})"),
            "messages[1].content[0].type: expected text (this model reads text only and does not "
            R"(support files), found "document")");
  EXPECT_EQ(block_error("user", R"({"type": "tool_result", "content": 1})"),
            "messages[1].content[0].content: expected a string or a list of blocks, found 1");
  EXPECT_EQ(block_error("user", R"({"type": "tool_result", "content": [{}]})"),
            "messages[1].content[0].content[0].type: expected the type of a block, found nothing");
}

}  // namespace
}  // namespace fathom::api
