// Histories that a client cannot change: whatever stands in them, the session goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/anthropic/messages_request.h"

namespace fathom::api {
namespace {

using ::testing::SizeIs;

std::vector<Message> ReadHistory(const std::string& messages) {
  const std::string body = R"({"messages": [{"role": "user", "content": "Hi"}, )" + messages + "]}";
  const Result<JsonValue> json = ParseJson(body);
  EXPECT_TRUE(json) << body;
  if (!json) return {};
  FieldReader reader(*json);
  OfferedTools tools({});
  std::vector<Message> read = ReadConversation(reader, body, {}, &tools);
  EXPECT_FALSE(reader.error()) << body << reader.error()->message;
  return read;
}

TEST(MessagesHistoryTest, AnyInputOfACall) {
  const auto input = [](const std::string& fields) {
    const std::vector<Message> messages = ReadHistory(
        R"({"role": "assistant", "content": [{"type": "tool_use", "name": "f")" + fields + "}]}");
    return messages.back().tool_calls.at(0).arguments;
  };
  EXPECT_EQ(input(""), "{}");
  EXPECT_EQ(input(R"(, "input": null)"), "{}");
  EXPECT_EQ(input(R"(, "input": "")"), "{}");
  EXPECT_EQ(input(R"(, "input": "{\"a\":1}")"), R"({"a":1})");
  EXPECT_EQ(input(R"(, "input": [])"), "[]") << "shown as the one parameter, as in chat";
  EXPECT_EQ(input(R"(, "input": "x")"), "x");
}

TEST(MessagesHistoryTest, EmptyNamesAndIds) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "assistant", "content": [{"type": "tool_use", "id": "", "name": "", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "", "content": "x"}]})");
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[1].tool_calls.at(0).name, "");
  EXPECT_EQ(messages[2].tool_call_id, "");
}

TEST(MessagesHistoryTest, UnknownBlocks) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "assistant", "content": [{"type": "fallback", "to": "m"}, {"type": "song"},
                                        {"type": "tool_result"}, {"type": "text", "text": "a"}]},
      {"role": "user", "content": [{"type": "song"}, {"type": "web_search_tool_result"},
                                   {"type": "tool_use"}, {"type": "text", "text": "b"}]},
      {"role": "system", "content": [{"type": "song"}, {"type": "tool_removal"}]})");
  ASSERT_THAT(messages, SizeIs(4));
  EXPECT_EQ(messages[1].content, "a") << "no example for the next answer";
  EXPECT_EQ(messages[2].content, "[Unsupported song]\n\n[Unsupported tool_use]\n\nb");
  EXPECT_EQ(messages[3].content, "[Unsupported song]\n\n[Unsupported tool_removal]");
}

// Texts by the names of the Responses API, and a summary that a client gives to the user.
TEST(MessagesHistoryTest, TextsOfOtherBlocks) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
      {"role": "user", "content": [{"type": "compaction", "content": "Summary."},
          {"type": "compaction", "content": null}, {"type": "input_text", "text": "b"},
          {"type": "tool_result", "content": [{"type": "input_text", "text": "c"}]}]},
      {"role": "system", "content": [{"type": "compaction",
                                      "content": [{"type": "text", "text": "d"}]}]})");
  ASSERT_THAT(messages, SizeIs(5));
  EXPECT_EQ(messages[0].content, "Hi") << "only a summary of the assistant replaces anything";
  EXPECT_EQ(messages[1].content, "a");
  EXPECT_EQ(messages[2].content, "c");
  EXPECT_EQ(messages[3].content, "Summary.\n\nb");
  EXPECT_EQ(messages[4].content, "d");
}

TEST(MessagesHistoryTest, ImagesOfEarlierTurns) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "user", "content": [{"type": "image", "source": {"type": "base64"}},
                                   {"type": "document", "source": {"type": "url"}}]},
      {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"})");
  EXPECT_EQ(messages.at(1).content, "[Unsupported Image]\n\n[Unsupported Document]");
}

TEST(MessagesHistoryTest, ACompactionReplacesWhatPrecedesIt) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "assistant", "content": [{"type": "compaction", "content": "Old."}]},
      {"role": "user", "content": [{"type": "image"}]},
      {"role": "assistant", "content": [{"type": "text", "text": "dropped"},
          {"type": "compaction", "content": "Summary: all."}, {"type": "text", "text": "ok"}]},
      {"role": "user", "content": "next"})");
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[0].role, Role::kUser);
  EXPECT_EQ(messages[0].content, "Summary: all.");
  EXPECT_EQ(messages[1].role, Role::kAssistant);
  EXPECT_EQ(messages[1].content, "ok");
  EXPECT_EQ(messages[2].content, "next");
  const std::vector<Message> last = ReadHistory(
      R"({"role": "assistant", "content": [{"type": "compaction", "content": "All."}]})");
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].content, "All.");
}

TEST(MessagesHistoryTest, ACompactionThatFailedReplacesNothing) {
  EXPECT_THAT(ReadHistory(R"({"role": "assistant", "content": [
      {"type": "compaction", "content": null}, {"type": "text", "text": "ok"}]})"),
              SizeIs(2));
}

TEST(MessagesHistoryTest, ACompactionLeavesTheSystemTexts) {
  const std::string body = R"({"system": "S", "messages": [{"role": "system", "content": "T"},
      {"role": "user", "content": "a"}, {"role": "system", "content": "dropped"},
      {"role": "assistant", "content": [{"type": "compaction", "content": "Sum."}]},
      {"role": "system", "content": "U"}]})";
  const Result<JsonValue> json = ParseJson(body);
  FieldReader reader(*json);
  OfferedTools tools({});
  const std::vector<Message> messages = ReadConversation(reader, body, {}, &tools);
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[0].content, "S\n\nT");
  EXPECT_EQ(messages[1].content, "Sum.");
  EXPECT_EQ(messages[2].content, "U");
}

// Replaced at each turn, they would cost the cache of all behind them.
TEST(MessagesHistoryTest, CountersOfTokensGoEverywhere) {
  const std::vector<Message> messages = ReadHistory(R"(
      {"role": "system", "content": "<total_tokens>9 tokens left</total_tokens>"},
      {"role": "assistant", "content": "a"},
      {"role": "system", "content": "b\n<total_tokens>8 tokens left</total_tokens>"})");
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[1].role, Role::kAssistant);
  EXPECT_EQ(messages[2].content, "b");
}

}  // namespace
}  // namespace fathom::api
