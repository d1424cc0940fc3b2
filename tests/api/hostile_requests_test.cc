// Bodies that are short for what they ask the server to do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "api/anthropic/messages_request.h"
#include "api/common/api.h"
#include "api/openai/openai_requests.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_request.h"

namespace fathom::api {
namespace {

constexpr RequestLimits kHostileLimits = {.vocab_size = 1000, .max_context = 4096};

std::string Repeat(std::string_view unit, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += unit;
  return text;
}

template <class T>
std::string ErrorText(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST(HostileRequests, BodiesOfTooManyValuesAreRefusedByEveryApi) {
  const std::string body = "{\"x\":[" + Repeat("[],", 19'000'000) + "[]]}";
  for (const Api* api : Apis()) {
    const ApiResult<ApiCall> call = api->prepare(body, ApiModel());
    ASSERT_FALSE(call);
    EXPECT_EQ(call.error().status, 413);
    EXPECT_EQ(call.error().code, "request_too_large");
    EXPECT_EQ(call.error().param, "");
    EXPECT_EQ(api->error(call.error()).status, 413);
  }
}

TEST(HostileRequests, AbandonedBodiesAreNotReadToTheirEnd) {
  const std::string body = "{\"x\":[" + Repeat("12345,", 100'000) + "1]}";
  for (const Api* api : Apis()) {
    int n_asked = 0;
    const ApiBody abandoned(body, [&] { return ++n_asked == 3; });
    const ApiResult<ApiCall> call = api->prepare(abandoned, ApiModel());
    ASSERT_FALSE(call);
    EXPECT_EQ(call.error().status, 503);
    EXPECT_EQ(n_asked, 3);
  }
}

TEST(HostileRequests, MessagesAreCounted) {
  const std::size_t n_most = kMaxMessages;
  const auto chat = [](std::size_t n) {
    return ErrorText(ParseChatCompletionRequest(
        R"({"messages":[{"role":"user"})" + Repeat(R"(,{"role":"user"})", n - 1) + "]}",
        kHostileLimits, {}));
  };
  EXPECT_EQ(chat(n_most), "");
  EXPECT_EQ(chat(n_most + 1), "messages: expected at most 65536 messages, found 65537");
  const auto messages = [](std::size_t n) {
    return ErrorText(
        ParseMessagesRequest(R"({"messages":[{"role":"user","content":[{"type":"tool_result"})" +
                                 Repeat(R"(,{"type":"tool_result"})", n - 1) + "]}]}",
                             kHostileLimits, {}));
  };
  EXPECT_EQ(messages(n_most - 1), "") << "with the message itself";
  EXPECT_EQ(
      messages(n_most),
      "messages[0].content[65535]: expected at most 65536 messages, calls and results, found more");
  const auto calls = [](std::size_t n) {
    return ErrorText(ParseChatCompletionRequest(
        R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}})" +
            Repeat(R"(,{"function":{"name":"f"}})", n - 1) + "]}]}",
        kHostileLimits, {}));
  };
  EXPECT_EQ(calls(n_most), "");
  EXPECT_EQ(
      calls(n_most + 1),
      "messages[0].tool_calls: expected at most 65536 tool calls in all messages, found more");
  const auto responses = [](std::size_t n) {
    return ErrorText(ParseResponsesRequest(
        R"({"input":[{"role":"user"})" + Repeat(R"(,{"role":"user"})", n - 1) + "]}",
        kHostileLimits, {}, nullptr));
  };
  EXPECT_EQ(responses(n_most), "");
  EXPECT_EQ(responses(n_most + 1), "input[65536]: expected at most 65536 items, found more");
}

// A tool of seventeen bytes becomes hundreds.
TEST(HostileRequests, ToolsAreCountedAsTheyAreRead) {
  for (const std::string_view begin :
       {R"({"input":"","tools":[)", R"({"input":"","tools":[{"type":"namespace","name":"n",)"
                                    R"("tools":[)"}) {
    const bool is_inner = begin.find("namespace") != std::string_view::npos;
    const std::string tools = Repeat(R"({"type":"shell"},)", kHostileLimits.max_tools);
    const auto error_of = [&](std::string_view more) {
      const std::string body = fmt::format("{}{}{}]{}}}", begin, tools, more, is_inner ? "}]" : "");
      return ErrorText(ParseResponsesRequest(body, kHostileLimits, {}, nullptr));
    };
    EXPECT_EQ(error_of(R"({"type":"web_search"})"), "") << "which is dropped";
    EXPECT_EQ(error_of(R"({"type":"shell"},5)"), "tools: expected at most 1024, found more")
        << "what follows is not read";
  }
}

TEST(HostileRequests, WhatResponsesRepeatHasALimit) {
  for (const std::string_view key :
       {"metadata", "user", "prompt_cache_key", "text", "reasoning", "truncation", "tool_choice"}) {
    const std::string body =
        fmt::format(R"({{"input":"Hi","{}":{{"a":"{}"}}}})", key, std::string(256 << 10, 'x'));
    EXPECT_EQ(ErrorText(ParseResponsesRequest(body, kHostileLimits, {}, nullptr)),
              fmt::format("{}: expected at most 262144 bytes, found 262152", key));
  }
  const std::string instructions =
      fmt::format(R"({{"input":"Hi","instructions":"{}"}})", std::string(1 << 20, 'x'));
  EXPECT_TRUE(ParseResponsesRequest(instructions, kHostileLimits, {}, nullptr));
}

// Every event of a stream repeats the name.
TEST(HostileRequests, NamesOfModelsHaveALimit) {
  const auto request = [](std::size_t n_bytes) {
    return fmt::format(R"({{"model":"{}","max_tokens":1,"input":"Hi","messages":[{}]}})",
                       std::string(n_bytes, 'm'), R"({"role":"user","content":"Hi"})");
  };
  const auto completion = [](std::size_t n_bytes) {
    return fmt::format(R"({{"model":"{}","prompt":"Hi"}})", std::string(n_bytes, 'm'));
  };
  const std::string error =
      "model: expected a string of at most 1024 characters, found 1025 of them";
  const std::string longest = request(1024);
  EXPECT_TRUE(ParseChatCompletionRequest(longest, kHostileLimits, {}));
  EXPECT_TRUE(ParseCompletionRequest(completion(1024), kHostileLimits, {}));
  EXPECT_TRUE(ParseMessagesRequest(longest, kHostileLimits, {}));
  EXPECT_TRUE(ParseResponsesRequest(longest, kHostileLimits, {}, nullptr));
  const std::string longer = request(1025);
  EXPECT_EQ(ErrorText(ParseChatCompletionRequest(longer, kHostileLimits, {})), error);
  EXPECT_EQ(ErrorText(ParseCompletionRequest(completion(1025), kHostileLimits, {})), error);
  EXPECT_EQ(ErrorText(ParseMessagesRequest(longer, kHostileLimits, {})), error);
  EXPECT_EQ(ErrorText(ParseResponsesRequest(longer, kHostileLimits, {}, nullptr)), error);
}

TEST(HostileRequests, ReferencesToStoredItemsAreCounted) {
  const auto error_of = [](std::size_t n_references, std::size_t item_bytes) {
    ResponseStore store;
    store.Put({.id = "resp_1",
               .json = "{}",
               .items = {{.id = "a",
                          .json = R"({"role":"user","content":")" + std::string(item_bytes, 'x') +
                                  "\"}"}}});
    const Result<ResponsesRequest> request = ParseResponsesRequest(
        R"({"store":false,"input":[{"id":"a"})" + Repeat(R"(,{"id":"a"})", n_references - 1) + "]}",
        kHostileLimits, {}, &store);
    return request ? 0 : ToApiError(request.error()).status;
  };
  EXPECT_EQ(error_of(1024, 10), 0);
  EXPECT_EQ(error_of(1025, 10), 413);
  EXPECT_EQ(error_of(60, 1 << 20), 0);
  EXPECT_EQ(error_of(65, 1 << 20), 413);
}

double SecondsToChoose(int n_tools) {
  std::string tools;
  std::string allowed;
  for (int i = 0; i < n_tools; ++i) {
    const std::string_view comma = i == 0 ? "" : ",";
    tools += fmt::format(R"({}{{"type":"function","name":"f{:06}"}})", comma, i);
    allowed += fmt::format(R"({}{{"name":"f{:06}"}})", comma, i);
  }
  const std::string body = fmt::format(
      R"({{"input":"","tools":[{}],"tool_choice":{{"type":"allowed_tools","mode":"required",)"
      R"("tools":[{}]}}}})",
      tools, allowed);
  RequestLimits limits = kHostileLimits;
  limits.max_tools = static_cast<std::size_t>(n_tools);
  const auto begin = std::chrono::steady_clock::now();
  const Result<ResponsesRequest> request = ParseResponsesRequest(body, limits, {}, nullptr);
  EXPECT_TRUE(request) << ErrorText(request);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Quadratic time would be 64 times as long, and take a second.
TEST(HostileRequests, AllowedToolsTakeLinearTime) {
  const double some = SecondsToChoose(1'600);
  EXPECT_LT(SecondsToChoose(12'800), std::max(0.1, 24 * some));
}

}  // namespace
}  // namespace fathom::api
