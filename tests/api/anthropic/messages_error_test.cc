#include <gtest/gtest.h>

#include "api/anthropic/messages_api.h"
#include "api/anthropic/messages_format.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"

namespace fathom::api {
namespace {

TEST(MessagesErrorTest, TheTypeFollowsFromTheStatus) {
  const auto type_of = [](int status) {
    const JsonValue json =
        MessagesErrorJson({.status = status, .message = "m", .type = "", .param = "", .code = ""});
    return std::string(json.Find("error")->FindText("type"));
  };
  EXPECT_EQ(type_of(400), "invalid_request_error");
  EXPECT_EQ(type_of(401), "authentication_error");
  EXPECT_EQ(type_of(403), "permission_error");
  EXPECT_EQ(type_of(404), "not_found_error");
  EXPECT_EQ(type_of(405), "invalid_request_error");
  EXPECT_EQ(type_of(413), "request_too_large");
  EXPECT_EQ(type_of(429), "rate_limit_error");
  EXPECT_EQ(type_of(500), "api_error");
  EXPECT_EQ(type_of(503), "overloaded_error");
}

TEST(MessagesErrorTest, ReplyHasTheFormAndStatusOfTheApi) {
  ApiError error = ToApiError({ErrorCode::kUnavailable, "shutting down"});
  ApiReply reply = kMessages.error(error);
  EXPECT_EQ(reply.status, 529);
  EXPECT_EQ(reply.body,
            R"({"type":"error","error":{"type":"overloaded_error","message":"shutting down"}})");
  reply = kChatCompletions.error(error);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, ToJson(error));
  error = ToApiError({ErrorCode::kResourceExhausted, "the queue is full"});
  reply = kMessages.error(error);
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(
      reply.body,
      R"({"type":"error","error":{"type":"rate_limit_error","message":"the queue is full"}})");
}

TEST(MessagesErrorTest, NamesTheRequestIfItIsKnown) {
  ApiError error = ToApiError({ErrorCode::kUnavailable, "shutting down"});
  error.request_id = "req_1";
  EXPECT_EQ(kMessages.error(error).body,
            R"({"type":"error","error":{"type":"overloaded_error","message":"shutting down"},)"
            R"("request_id":"req_1"})");
  EXPECT_EQ(kResponses.error(error).body.find("req_1"), std::string::npos);
}

TEST(MessagesErrorTest, TheMessageNamesTheField) {
  ApiError error = ToApiError({ErrorCode::kInvalidArgument, "messages[0].role: expected a role"});
  EXPECT_EQ(MessagesErrorJson(error).Find("error")->Find("message")->text(),
            "messages[0].role: expected a role");
  error.param = "output_config.effort";
  EXPECT_EQ(MessagesErrorJson(error).Find("error")->Find("message")->text(),
            "output_config.effort: messages[0].role: expected a role");
}

TEST(MessagesErrorTest, ContextLengthHasTheWordsThatClaudeCodeLooksFor) {
  const ApiReply reply = kMessages.error(ContextLengthError(3000, 2048));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, R"({"type":"error","error":{"type":"invalid_request_error",)"
                        R"("message":"prompt is too long: 3000 tokens > 2048 maximum"}})");
}

}  // namespace
}  // namespace fathom::api
