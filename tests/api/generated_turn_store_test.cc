#include "api/common/generated_turn_store.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

constexpr std::size_t kBytes = 1 << 20;

Message UserMessage(const std::string& text) { return {.role = Role::kUser, .content = text}; }

Message AnswerMessage(const std::string& content, std::vector<ToolCall> calls = {},
                      const std::string& reasoning = "") {
  return {.role = Role::kAssistant,
          .content = content,
          .reasoning_content = reasoning,
          .tool_calls = std::move(calls)};
}

GeneratedTurn MakeTurn(Token token) { return {.tokens = {token, 1}, .has_reasoning = true}; }

ToolCall MadeCall(const std::string& id, const std::string& arguments = R"({"a": 1})") {
  return {.id = id, .name = "f", .arguments = arguments};
}

class GeneratedTurnStoreTest : public ::testing::Test {
 protected:
  // Returns the first token by which the prompt replays the last message but `n_after`; 0 if the
  // message is encoded from its text.
  static Token Recalled(GeneratedTurnStore& store, std::vector<Message> messages,
                        std::size_t n_after = 0) {
    store.Recall(&messages);
    const Message& message = messages[messages.size() - 1 - n_after];
    return message.written ? message.written->tokens.front() : 0;
  }
  Token Named(const Message& message) { return Recalled(named_, {UserMessage("q"), message}); }

  GeneratedTurnStore named_{ReplayScope::kNamed, kBytes, testing::CountingBits()};
  GeneratedTurnStore all_{ReplayScope::kAll, kBytes, testing::CountingBits()};
};

TEST_F(GeneratedTurnStoreTest, CallsAreFoundByTheirIds) {
  std::vector<Message> asked = {UserMessage("q")};
  const std::string arguments = R"({"a": 1.0, "b": {"x": "é", "y": []}})";
  named_.Remember(named_.Recall(&asked),
                  AnswerMessage("So.", {MadeCall("id1", arguments), MadeCall("id2")}, "why"),
                  MakeTurn(7));
  const std::string respelled = R"({"b":{"y":[],"x":"\u00e9"},"a":1})";
  const std::vector<ToolCall> calls = {MadeCall("id1", respelled), MadeCall("id2")};
  EXPECT_EQ(Named(AnswerMessage("So.", calls, "why")), 7);
  EXPECT_EQ(Named(AnswerMessage("So.", calls)), 7) << "its reasoning is lost";
  EXPECT_EQ(Named(AnswerMessage(" So.\n", calls, "\nwhy ")), 7) << "blanks";
  EXPECT_EQ(Recalled(named_, {UserMessage("another conversation"), AnswerMessage("So.", calls)}),
            7);
}

TEST_F(GeneratedTurnStoreTest, EditsAreHonoured) {
  named_.Remember({}, AnswerMessage("So.", {MadeCall("id1"), MadeCall("id2")}, "why"), MakeTurn(7));
  const std::vector<ToolCall> calls = {MadeCall("id1"), MadeCall("id2")};
  ASSERT_EQ(Named(AnswerMessage("So.", calls, "why")), 7);
  EXPECT_EQ(Named(AnswerMessage("So!", calls, "why")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.", calls, "because")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id1")}, "why")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id2"), MadeCall("id1")}, "why")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id1", R"({"a": 2})"), MadeCall("id2")}, "why")),
            0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id1", R"({"a": "1"})"), MadeCall("id2")}, "why")),
            0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id1"), {.id = "id2", .name = "g"}}, "why")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.", {MadeCall("id1"), MadeCall("")}, "why")), 0);
  EXPECT_EQ(Named(AnswerMessage("So.")), 0);
  Message open = AnswerMessage("So.", calls, "why");
  open.leave_open = true;
  EXPECT_EQ(Named(open), 0) << "a turn that is to go on";
}

TEST_F(GeneratedTurnStoreTest, CallsWithoutIdsAreNotRemembered) {
  named_.Remember({}, AnswerMessage("", {MadeCall("")}), MakeTurn(7));
  EXPECT_EQ(named_.bytes(), 0u);
}

TEST_F(GeneratedTurnStoreTest, TextsAreFoundByTheirConversation) {
  std::vector<Message> asked = {{.role = Role::kSystem, .content = "s"}, UserMessage("q")};
  all_.Remember(all_.Recall(&asked), AnswerMessage("So.", {}, "why"), MakeTurn(7));
  const auto with = [&](const Message& answer) {
    std::vector<Message> messages = asked;
    messages.push_back(answer);
    messages.push_back(UserMessage("q2"));
    return messages;
  };
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So.")), 1), 7);
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So. ", {}, "why")), 1), 7);
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So.", {}, "because")), 1), 0);
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So")), 1), 0);
  EXPECT_EQ(Recalled(all_, {UserMessage("q"), AnswerMessage("So.")}), 0) << "another conversation";
  EXPECT_EQ(Recalled(all_, {UserMessage("s"), UserMessage("q"), AnswerMessage("So.")}), 0);
  all_.Remember(all_.Recall(&asked), AnswerMessage("So.", {}, "otherwise"), MakeTurn(8));
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So.")), 1), 8) << "the latest of the same text";
  EXPECT_EQ(Recalled(all_, with(AnswerMessage("So.", {}, "why")), 1), 0);
}

// Requests whose calls have no ids mean the same whatever was asked before.
TEST_F(GeneratedTurnStoreTest, TextsAreNamedByTheCallsBeforeThem) {
  std::vector<Message> plain = {UserMessage("q")};
  named_.Remember(named_.Recall(&plain), AnswerMessage("So.", {}, "why"), MakeTurn(7));
  EXPECT_EQ(named_.bytes(), 0u);
  EXPECT_EQ(Named(AnswerMessage("So.")), 0);

  named_.Remember({}, AnswerMessage("", {MadeCall("id1")}), MakeTurn(8));
  std::vector<Message> called = {UserMessage("q"),
                                 AnswerMessage("", {MadeCall("id1")}),
                                 {.role = Role::kTool, .content = "r", .tool_call_id = "id1"}};
  const OpenConversation conversation = named_.Recall(&called);
  EXPECT_TRUE(conversation.is_named);
  named_.Remember(conversation, AnswerMessage("So.", {}, "why"), MakeTurn(9));
  called.push_back(AnswerMessage("So."));
  EXPECT_EQ(Recalled(named_, called), 9);
  called[1].tool_calls[0].id = "id2";
  EXPECT_EQ(Recalled(named_, called), 0);
}

TEST_F(GeneratedTurnStoreTest, EveryFieldOfAMessageTells) {
  const std::vector<Message> messages = {
      UserMessage("a"),
      UserMessage("b"),
      {.role = Role::kSystem, .content = "a"},
      {.role = Role::kTool, .content = "a"},
      {.role = Role::kTool, .content = "a", .tool_call_id = "1"},
      {.role = Role::kUser, .blocks = {{.text = "a"}}},
      {.role = Role::kUser, .blocks = {{.kind = ContentBlock::Kind::kToolResult, .text = "a"}}},
      {.role = Role::kUser, .blocks = {{.text = "a"}, {.text = ""}}},
      AnswerMessage("a"),
      AnswerMessage("a", {MadeCall("1")}),
      AnswerMessage("a", {MadeCall("2")}),
      AnswerMessage("a", {MadeCall("1", "x")})};
  const TurnKeys keys(1);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    for (std::size_t j = 0; j < messages.size(); ++j) {
      EXPECT_EQ(keys.Extend({}, messages[i]) == keys.Extend({}, messages[j]), i == j);
    }
  }
  EXPECT_NE(TurnKeys(2).Extend({}, messages[0]), keys.Extend({}, messages[0])) << "the seed";
}

TEST_F(GeneratedTurnStoreTest, TheLongestUnusedGoFirst) {
  all_.Remember({}, AnswerMessage("", {MadeCall("id")}), MakeTurn(7));
  GeneratedTurnStore store(ReplayScope::kNamed, 3 * all_.bytes(), testing::CountingBits());
  const auto remember = [&](const std::string& id, std::size_t n_tokens = 2) {
    store.Remember({}, AnswerMessage("", {MadeCall(id)}),
                   {.tokens = std::vector<Token>(n_tokens, 7)});
  };
  const auto has = [&](const std::string& id) {
    return Recalled(store, {AnswerMessage("", {MadeCall(id)})}) != 0;
  };
  for (const char* id : {"a", "b", "c"}) remember(id);
  EXPECT_TRUE(has("a"));
  remember("d");
  EXPECT_FALSE(has("b"));
  EXPECT_TRUE(has("c") && has("a") && has("d"));
  remember("e", 1 << 20);
  EXPECT_FALSE(has("e")) << "larger than all there is room for";
  EXPECT_TRUE(has("c")) << "and nothing went for it";
  EXPECT_EQ(store.bytes(), 3 * all_.bytes());
}

TEST_F(GeneratedTurnStoreTest, ManyThreads) {
  GeneratedTurnStore store(ReplayScope::kAll, 4096, testing::CountingBits());
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&store, thread] {
      for (int i = 0; i < 500; ++i) {
        const Token token = static_cast<Token>((i * 7 + thread) % 30);
        const std::string name = std::to_string(token);
        std::vector<Message> messages = {UserMessage(name)};
        store.Remember(store.Recall(&messages), AnswerMessage("So."), MakeTurn(token));
        store.Remember({}, AnswerMessage("", {MadeCall(name)}), MakeTurn(token));
        messages = {UserMessage(name), AnswerMessage("So."), AnswerMessage("", {MadeCall(name)})};
        store.Recall(&messages);
        for (const Message& message : messages) {
          EXPECT_TRUE(!message.written || message.written->tokens.front() == token);
        }
      }
    });
  }
  threads.clear();
  EXPECT_LE(store.bytes(), 4096u);
}

}  // namespace
}  // namespace fathom::api
