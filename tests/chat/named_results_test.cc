#include "chat/named_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;
using Calls = std::vector<std::pair<std::string, std::string>>;  // ids and names

Message Turn(const Calls& calls) {
  Message turn = {.role = Role::kAssistant};
  for (const auto& [id, name] : calls) turn.tool_calls.push_back({.id = id, .name = name});
  return turn;
}
Message Named(std::string name) { return {.role = Role::kTool, .tool_name = std::move(name)}; }
Message WithId(std::string id, std::string name = "") {
  return {.role = Role::kTool, .tool_call_id = std::move(id), .tool_name = std::move(name)};
}

// The ids of the results.
std::vector<std::string> Ids(std::vector<Message> messages) {
  PairNamedResults(&messages);
  std::vector<std::string> ids;
  for (const Message& message : messages) {
    if (message.role == Role::kTool) ids.push_back(message.tool_call_id);
  }
  return ids;
}

TEST(NamedResultsTest, AnswerTheCallsOfTheirNameInOrder) {
  EXPECT_THAT(Ids({Turn({{"1", "f"}, {"2", "g"}}), Named("g"), Named("f")}), ElementsAre("2", "1"));
  EXPECT_THAT(Ids({Turn({{"1", "f"}, {"2", "g"}, {"3", "f"}}), Named("f"), Named("f"), Named("g")}),
              ElementsAre("1", "3", "2"));
}

TEST(NamedResultsTest, CallsWithoutIdsGetThem) {
  std::vector<Message> messages = {Turn({{"", "f"}, {"", "g"}, {"", "h"}}), Named("g"), Named("f")};
  PairNamedResults(&messages);
  const std::vector<ToolCall>& calls = messages[0].tool_calls;
  EXPECT_NE(calls[0].id, calls[1].id);
  EXPECT_EQ(calls[2].id, "") << "nothing answers it";
  EXPECT_EQ(messages[1].tool_call_id, calls[1].id);
  EXPECT_EQ(messages[2].tool_call_id, calls[0].id);
}

TEST(NamedResultsTest, OnlyOpenCallsOfTheLastCallingTurnAreAnswered) {
  EXPECT_THAT(Ids({Turn({{"1", "f"}}), Named("f"), Named("f"), Named("g")}),
              ElementsAre("1", "", ""));
  EXPECT_THAT(Ids({Turn({{"1", "f"}, {"2", "f"}}), WithId("1"), Named("f")}),
              ElementsAre("1", "2"));
  EXPECT_THAT(Ids({Turn({{"1", "f"}}), Turn({{"2", "g"}}), Named("f"), Named("g")}),
              ElementsAre("", "2"));
  EXPECT_THAT(Ids({Named("f"), Turn({{"1", "f"}}), Turn({}), Named("f")}), ElementsAre("", "1"));
}

TEST(NamedResultsTest, AnIdCountsMoreThanAName) {
  EXPECT_THAT(Ids({Turn({{"1", "f"}, {"2", "g"}}), WithId("2", "f"), WithId("x", "f"), Named("")}),
              ElementsAre("2", "x", ""));
}

TEST(NamedResultsTest, ManyOfOneNameTakeLinearTime) {
  std::vector<Message> messages = {Turn(Calls(kMaxMessages, {"", "f"}))};
  for (std::size_t i = 1; i < kMaxMessages; ++i) messages.push_back(Named("f"));
  const auto start = std::chrono::steady_clock::now();
  PairNamedResults(&messages);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(messages.back().tool_call_id, messages[0].tool_calls[kMaxMessages - 2].id);
}

}  // namespace
}  // namespace fathom::chat
