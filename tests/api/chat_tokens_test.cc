#include "api/common/prompt_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Json = nlohmann::ordered_json;

class ChatTokensTest : public testing::ApiModelTest {
 protected:
  Token Id(std::string_view text) const { return *tokenizer_.Find(text); }
  std::vector<Token> Turns() const {
    return {Id("<｜begin▁of▁sentence｜>"), Id("<｜User｜>"), Id("<｜Assistant｜>")};
  }
  ApiCall Prepare(const Api* endpoint, const std::string& fields = "") const {
    const std::string body =
        endpoint == &kCompletions ? R"("prompt": "Hi")"
        : endpoint == &kResponses
            ? R"("input": "Hi")"
            : R"("max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}])";
    ApiResult<ApiCall> call = endpoint->prepare("{" + body + fields + "}", model_);
    EXPECT_TRUE(call) << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }
  // The answer that a turn token ended.
  Json Ended(const Api* endpoint) const {
    const ApiCall call = Prepare(endpoint);
    std::vector<StreamEvent> events = Events("Hm.</think>Hi.", FinishReason::kStop);
    events.back().token = Id("<｜User｜>");
    return testing::Tell(call, model_, events).whole;
  }
};

TEST_F(ChatTokensTest, TurnTokensEndTheAnswersOfChats) {
  for (const Api* const endpoint : {&kChatCompletions, &kResponses, &kMessages}) {
    const ApiCall call = Prepare(endpoint);
    EXPECT_EQ(call.requests[0].sampling.stop_tokens, Turns());
    EXPECT_THAT(call.answers.stop_tokens, IsEmpty()) << "the client did not ask for them";
    EXPECT_EQ(call.answers.turn_tokens, Turns());
  }
  const ApiCall call = Prepare(&kCompletions);
  EXPECT_THAT(call.requests[0].sampling.stop_tokens, IsEmpty());
  EXPECT_THAT(call.requests[0].sampling.silent_tokens, IsEmpty());
}

TEST_F(ChatTokensTest, OnlyMarkupThatIsReadHasAText) {
  const ApiCall call = Prepare(&kChatCompletions);
  const std::vector<Token>& silent = call.requests[0].sampling.silent_tokens;
  EXPECT_THAT(silent, IsSupersetOf(Turns()));
  EXPECT_THAT(silent, Contains(Id("<｜end▁of▁sentence｜>")));
  EXPECT_THAT(silent, Contains(Id("<｜fim▁hole｜>")));
  for (const char* text : {"<think>", "</think>", "｜DSML｜"}) {
    EXPECT_THAT(silent, Not(Contains(Id(text)))) << text;
  }
}

// A client that ignores EOS wants all requested tokens.
TEST_F(ChatTokensTest, WithIgnoreEosNothingEndsAndNothingShows) {
  const ApiCall call = Prepare(&kChatCompletions, R"(, "ignore_eos": true, "stop_token_ids": [7])");
  EXPECT_EQ(call.requests[0].sampling.stop_tokens, std::vector<Token>{7});
  EXPECT_THAT(call.requests[0].sampling.silent_tokens, IsSupersetOf(Turns()));
}

TEST_F(ChatTokensTest, ATurnTokenIsAnOrdinaryEnd) {
  const Json chat = Ended(&kChatCompletions)["choices"][0];
  EXPECT_EQ(chat["finish_reason"], "stop");
  EXPECT_TRUE(chat["stop_reason"].is_null());
  EXPECT_EQ(chat["message"]["content"], "Hi.");
  const Json message = Ended(&kMessages);
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(Ended(&kResponses)["status"], "completed");
}

TEST_F(ChatTokensTest, ItIsToldFromOtherEnds) {
  AnswerOptions options = {.stop_tokens = {7}, .turn_tokens = {5, 7}};
  const auto ends_at_turn = [&](Token token, FinishReason finish) {
    AnswerCollector collector(options, testing::CountingBits());
    collector.Add({.token = token, .finish = finish});
    return collector.collected().ends_at_turn;
  };
  EXPECT_TRUE(ends_at_turn(5, FinishReason::kStop));
  EXPECT_FALSE(ends_at_turn(1, FinishReason::kStop));
  EXPECT_FALSE(ends_at_turn(7, FinishReason::kStop)) << "the client asked for it";
  EXPECT_FALSE(ends_at_turn(5, FinishReason::kLength));
}

}  // namespace
}  // namespace fathom::api
