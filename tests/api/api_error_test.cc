#include "api/common/api_error.h"

#include <gtest/gtest.h>

namespace fathom::api {
namespace {

ApiError Converted(ErrorCode code, std::string message) {
  return ToApiError({.code = code, .message = std::move(message)});
}

TEST(ApiErrorTest, TheFieldBeforeTheColonIsTheParam) {
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, "stop[2]: expected x").param, "stop[2]");
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, "messages[0].role: expected x").param,
            "messages[0].role");
  EXPECT_EQ(Converted(ErrorCode::kUnsupported, "echo: not supported yet").param, "echo");
  EXPECT_EQ(Converted(ErrorCode::kInvalidData, "JSON, byte 5: expected x").param, "");
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, ": x").param, "");
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, "nothing but words").param, "");
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, "word").param, "");
}

TEST(ApiErrorTest, StatusOfEveryCode) {
  EXPECT_EQ(Converted(ErrorCode::kInvalidArgument, "a").status, 400);
  EXPECT_EQ(Converted(ErrorCode::kInvalidData, "a").status, 400);
  EXPECT_EQ(Converted(ErrorCode::kUnsupported, "a").status, 400);
  EXPECT_EQ(Converted(ErrorCode::kNotFound, "a").status, 404);
  EXPECT_EQ(Converted(ErrorCode::kResourceExhausted, "a").status, 429);
  EXPECT_EQ(Converted(ErrorCode::kUnavailable, "a").status, 503);
  EXPECT_EQ(Converted(ErrorCode::kOutOfMemory, "a").status, 500);
  EXPECT_EQ(Converted(ErrorCode::kIo, "a").status, 500);
}

TEST(ApiErrorTest, Json) {
  EXPECT_EQ(ToJson(Converted(ErrorCode::kInvalidArgument, "top_p: expected \"x\"")),
            R"({"error":{"message":"top_p: expected \"x\"","type":"invalid_request_error",)"
            R"("param":"top_p","code":"invalid_value"}})");
  EXPECT_EQ(ToJson(Converted(ErrorCode::kIo, "it broke")),
            R"({"error":{"message":"it broke","type":"server_error","param":null,)"
            R"("code":"server_error"}})");
}

TEST(ApiErrorTest, ContextLengthHasTheWordsThatClientsLookFor) {
  const ApiError error = ContextLengthError(3000, 2048);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.message.find("maximum context length is 2048 tokens"), std::string::npos);
  EXPECT_NE(error.message.find("requested 3000 tokens"), std::string::npos);
  EXPECT_NE(error.message.find("prompt is too long"), std::string::npos) << "for LangChain";
}

}  // namespace
}  // namespace fathom::api
