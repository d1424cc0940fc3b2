// Constraints as clients and operators see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/service_fixture.h"

namespace fathom::server {
namespace {

using testing::FakeExchange;
using ::testing::HasSubstr;

class ServiceConstraintTest : public testing::ServiceTest {};

TEST_F(ServiceConstraintTest, WhatIsNotEnforcedIsSaid) {
  compiler_.relaxed = {"tools[0]/properties/a/format"};
  const std::string strict =
      R"("tools": [{"type": "function", "function": {"name": "f", "strict": true}}]})";
  const std::string relaxed = "tools[0].function.parameters/properties/a/format";
  const std::string chat = std::string(kChat).substr(0, std::string(kChat).size() - 1);
  for (const char* stream : {"", R"("stream": true, )"}) {
    const FakeExchange answer = Ask("POST", "/v1/chat/completions", chat + ", " + stream + strict);
    EXPECT_EQ(answer.head.status, 200);
    EXPECT_EQ(answer.Field("X-Constraint-Relaxed"), relaxed);
    EXPECT_EQ(records_.back().relaxed, relaxed);
  }
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).Field("X-Constraint-Relaxed"), "");
  EXPECT_EQ(records_.back().relaxed, "");
  compiler_.relaxed = {"content/uniqueItems"};
  const FakeExchange completion =
      Ask("POST", "/v1/completions", R"({"prompt": "Hi", "guided_json": {"uniqueItems": true}})");
  EXPECT_EQ(completion.Field("X-Constraint-Relaxed"), "guided_json/uniqueItems");
}

TEST_F(ServiceConstraintTest, AFormThatCannotBeKeptIsRefused) {
  compiler_.error = {.code = ConstraintErrorCode::kUnsatisfiableSchema,
                     .message = "nothing fits",
                     .issues = {{"/minimum", "minimum", "nothing fits"}}};
  const FakeExchange chat =
      Ask("POST", "/v1/chat/completions",
          R"({"messages": [{"role": "user", "content": "Hi"}], "guided_json": {}})");
  EXPECT_EQ(chat.head.status, 400);
  EXPECT_EQ(ReadJson(chat)["error"]["code"], "unsatisfiable_schema");
  EXPECT_EQ(ReadJson(chat)["error"]["param"], "guided_json");
  EXPECT_EQ(ReadJson(chat)["error"]["errors"][0]["pointer"], "/minimum");
  const FakeExchange message = Ask(
      "POST", "/v1/messages",
      R"({"messages": [{"role": "user", "content": "Hi"}], "output_format": {"type": "json_schema",
          "schema": {}}})");
  EXPECT_EQ(message.head.status, 400);
  EXPECT_EQ(ReadJson(message)["error"]["errors"][0]["keyword"], "minimum");
  EXPECT_EQ(runner_.submitted(), 0);
  EXPECT_THAT(Ask("GET", "/metrics").text,
              HasSubstr("fathom_constraints_refused_total{reason=\"unsatisfiable_schema\"} 2\n"));
  compiler_.error.reset();
  Ask("POST", "/v1/completions", R"({"prompt": "Hi", "guided_regex": "a"})");
  Ask("POST", "/v1/completions", R"({"prompt": "Hi"})");
  EXPECT_THAT(Ask("GET", "/metrics").text,
              HasSubstr("fathom_constraint_compile_seconds_count 1\n"));
}

}  // namespace
}  // namespace fathom::server
