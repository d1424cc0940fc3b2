#include "chat/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;

Message System(std::string text) { return {.role = Role::kSystem, .content = std::move(text)}; }
Message User(std::string text) { return {.role = Role::kUser, .content = std::move(text)}; }
Message ToolResultOf(std::string id) {
  return {.role = Role::kTool, .content = "of " + id, .tool_call_id = std::move(id)};
}
Message Call(std::string id) {
  return {.role = Role::kAssistant, .tool_calls = {{.id = std::move(id), .name = "f"}}};
}
Message Says(std::string text) { return {.role = Role::kAssistant, .content = std::move(text)}; }
Message Thinks(std::string text) {
  return {.role = Role::kAssistant, .reasoning_content = std::move(text)};
}

// One word for each message: its role and its text or ids.
std::vector<std::string> Arranged(std::vector<Message> messages) {
  ArrangeHistory(&messages);
  std::vector<std::string> words;
  for (const Message& message : messages) {
    std::string word(kRoleNames[static_cast<std::size_t>(message.role)]);
    word += ":" + message.reasoning_content + message.content;
    for (const ToolCall& call : message.tool_calls) word += "(" + call.id + ")";
    words.push_back(std::move(word));
  }
  return words;
}

TEST(History, LeadingSystemMessagesAreOne) {
  EXPECT_THAT(Arranged({System("a"), System(""), System("b"), User("q")}),
              ElementsAre("system:a\n\nb", "user:q"));
  EXPECT_THAT(Arranged({System("")}), ElementsAre("system:"));
}

TEST(History, LaterSystemMessagesAreTextOfTheUser) {
  EXPECT_THAT(Arranged({System("a"), User("q"), System("b"), System(""), Says("x"), System("c")}),
              ElementsAre("system:a", "user:q", "user:<system-reminder>\nb\n</system-reminder>",
                          "assistant:x", "user:<system-reminder>\nc\n</system-reminder>"));
}

TEST(History, ToolsAndFormatsOfLaterSystemMessagesStandAtTheHead) {
  std::vector<Message> messages = {User("q"), System("b")};
  messages[1].tools = {{.name = "f"}};
  messages[1].response_format = "{}";
  ArrangeHistory(&messages);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_EQ(messages[0].tools.size(), 1u);
  EXPECT_EQ(messages[0].response_format, "{}");
  EXPECT_TRUE(messages[2].tools.empty());
}

TEST(History, ResultsFollowTheirCalls) {
  EXPECT_THAT(
      Arranged({Call("1"), User("u"), Thinks("t"), System("s"), ToolResultOf("1"), Says("x")}),
      ElementsAre("assistant:(1)", "tool:of 1", "user:u", "assistant:t",
                  "user:<system-reminder>\ns\n</system-reminder>", "assistant:x"));
}

TEST(History, ResultsAreNotMovedBeforeAnotherAnswer) {
  EXPECT_THAT(Arranged({Call("1"), User("u"), Says("x"), User("v"), ToolResultOf("1")}),
              ElementsAre("assistant:(1)", "user:u", "assistant:x", "tool:of 1", "user:v"));
  EXPECT_THAT(Arranged({User("u"), Thinks("t"), User("v"), ToolResultOf("1")}),
              ElementsAre("user:u", "assistant:t", "tool:of 1", "user:v"))
      << "no call comes before the reasoning";
}

TEST(History, OnlyTheLastMessageStaysOpen) {
  std::vector<Message> messages = {Says("a"), User("u"), Says("b")};
  messages[0].leave_open = messages[2].leave_open = true;
  ArrangeHistory(&messages);
  EXPECT_FALSE(messages[0].leave_open);
  EXPECT_TRUE(messages[2].leave_open);
}

// Every later prompt begins with all that the model has read and written.
RC_GTEST_PROP(History, GrowsByTurns, ()) {
  const auto kinds = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6));
  std::vector<Message> messages;
  for (const int kind : kinds) {
    const std::string id = std::to_string(messages.size());
    const Message all[] = {System(id), User(id), ToolResultOf(id), Call(id), Says(id), Thinks(id)};
    messages.push_back(all[kind]);
  }
  messages.push_back(Says("end"));
  const std::vector<std::string> before = Arranged(messages);
  messages.push_back(ToolResultOf("late"));
  messages.push_back(System("late"));
  messages.push_back(User("late"));
  const std::vector<std::string> after = Arranged(messages);
  RC_ASSERT(after.size() == before.size() + 3);
  RC_ASSERT(std::equal(before.begin(), before.end(), after.begin()));
}

}  // namespace
}  // namespace fathom::chat
