// Large bodies: when they are read, and for whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/service.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// A megabyte: `begin`, and a list of the values `item`.
std::string LongList(std::string begin, std::string_view item) {
  begin.append("[").append(item);
  while (begin.size() < 1 << 20) begin.append(",").append(item);
  return begin + "]}";
}

std::string LongChat() {
  return LongList(R"({"messages": [{"role": "user", "content": "Hi"}], "x": )", "12345");
}

// A megabyte: `begin`, a text that is one JSON value, and `end`.
std::string LongText(std::string begin, std::string_view end) {
  begin += '"';
  while (begin.size() < 1 << 20) begin += "Once upon a time ";
  return begin.append("\"").append(end);
}

// Requests that take time though they generate nothing: the JSON is long, or the text to encode.
std::vector<std::pair<std::string, std::string>> LongRequests() {
  const std::string user = R"({"max_tokens": 1, "messages": [{"role": "user", "content": )";
  return {{"/tokenize", LongChat()},
          {"/tokenize", LongText(R"({"prompt": )", "}")},
          {"/tokenize", LongText(user, "}]}")},
          {"/detokenize", LongList(R"({"tokens": )", "1")},
          {"/v1/messages/count_tokens", LongText(user, "}]}")},
          {"/v1/responses/input_tokens", LongText(R"({"input": )", "}")},
          {"/v1/completions", LongText(R"({"prompt": )", "}")},
          {"/v1/chat/completions", LongText(user, "}]}")},
          {"/v1/messages", LongText(user, "}]}")},
          {"/v1/responses", LongText(R"({"input": )", "}")}};
}

TEST_F(ServiceTest, BodiesAreNotReadForClientsThatHaveLeft) {
  FakeExchange exchange;
  exchange.looks_until_gone = 2;
  Ask("POST", "/v1/chat/completions", LongChat(), {}, exchange);
  EXPECT_EQ(exchange.head.status, 503);
  EXPECT_EQ(exchange.n_looks, 3u);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", LongChat()).head.status, 200);
}

// Begins to drain when the server first looks whether the client is there.
struct DrainingExchange final : HttpExchange {
  explicit DrainingExchange(Service& drained) : service(drained) {}
  void Send(HttpResponse response) override { sent = std::move(response); }
  bool StartStream(HttpResponse) override { return true; }
  bool Write(std::string_view) override { return true; }
  void DropSlowClient() override {}
  bool ClientIsGone() override {
    ++n_looks;
    service.Drain();
    return false;
  }

  Service& service;
  HttpResponse sent;
  int n_looks = 0;
};

TEST_F(ServiceTest, BodiesAreNotReadWhileDraining) {
  DrainingExchange exchange(service());
  service().Handle({.method = "POST", .path = "/v1/chat/completions", .body = LongChat()},
                   exchange);
  EXPECT_EQ(exchange.sent.status, 503);
  EXPECT_THAT(exchange.sent.body, HasSubstr("shutting_down"));
  EXPECT_EQ(exchange.n_looks, 1);
}

TEST_F(ServiceTest, NothingIsCountedOrEncodedForClientsThatHaveLeft) {
  model_.limits.max_context = 1 << 20;  // or most texts would be refused at once
  for (const auto& [path, body] : LongRequests()) {
    FakeExchange exchange;
    exchange.looks_until_gone = 2;
    Ask("POST", path, body, {}, exchange);
    EXPECT_EQ(exchange.head.status, path.starts_with("/v1/messages") ? 529 : 503) << path;
    EXPECT_EQ(exchange.n_looks, 3u) << path;
  }
}

TEST_F(ServiceTest, NothingIsCountedOrEncodedWhileDraining) {
  model_.limits.max_context = 1 << 20;
  for (const auto& [path, body] : LongRequests()) {
    service_.reset();
    DrainingExchange exchange(service());
    service().Handle({.method = "POST", .path = path, .body = body}, exchange);
    EXPECT_THAT(exchange.sent.body, HasSubstr("the server is shutting down")) << path;
    EXPECT_EQ(exchange.n_looks, 1) << path;
  }
}

// Encoding takes many bytes of memory per byte of text.
TEST_F(ServiceTest, TextsThatAreCertainToBeTooLongAreNotEncoded) {
  for (const auto& [path, body] : LongRequests()) {
    const bool is_counted = path.find("_tokens") != std::string::npos;
    if (is_counted || !body.ends_with("}") || body.find("Once") == std::string::npos) continue;
    FakeExchange exchange;
    exchange.looks_until_gone = 3;  // encoding a megabyte looks more often
    Ask("POST", path, body, {}, exchange);
    EXPECT_EQ(exchange.head.status, 400) << path;
    EXPECT_THAT(exchange.head.body,
                AnyOf(HasSubstr("you requested at least "), HasSubstr("prompt is too long: ")))
        << path;
  }
}

// Does not say whether its client is there before it may.
struct SlowExchange final : HttpExchange {
  explicit SlowExchange(std::atomic<bool>& flag) : may_say(flag) {}
  void Send(HttpResponse response) override { status = response.status; }
  bool StartStream(HttpResponse) override { return true; }
  bool Write(std::string_view) override { return true; }
  void DropSlowClient() override {}
  bool ClientIsGone() override {
    ++n_looks;
    while (!may_say) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }

  std::atomic<bool>& may_say;
  std::atomic<int> status = 0;
  std::atomic<int> n_looks = 0;
};

// Values and tokens take a multiple of the memory of a body, so few large bodies have them at once.
TEST_F(ServiceTest, LargeBodiesArePreparedOneAfterTheOther) {
  const HttpRequest large = {
      .method = "POST",
      .path = "/v1/completions",
      .body = R"({"prompt": "Hi", "x": [0,)" + std::string(20 << 20, ' ') + "0]}"};
  const auto wait = [](const std::function<bool()>& holds) {
    while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::atomic<bool> may_say = false;
  std::atomic<bool> always = true;
  SlowExchange first(may_say);
  SlowExchange second(always);
  std::thread first_client([&] { service().Handle(large, first); });
  wait([&] { return first.n_looks == 1; });
  std::thread second_client([&] { service().Handle(large, second); });
  wait([&] { return second.n_looks > 4 || second.status != 0; });
  EXPECT_EQ(second.status, 0) << "it waits, and looks whether its client does";
  EXPECT_EQ(Ask("POST", "/v1/completions", R"({"prompt": "Hi"})").head.status, 200)
      << "small ones do not wait for large ones";
  FakeExchange leaving;
  leaving.looks_until_gone = 2;
  Ask("POST", "/v1/completions", large.body, {}, leaving);
  EXPECT_EQ(leaving.head.status, 503);
  may_say = true;
  first_client.join();
  second_client.join();
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(second.status, 200);
}

}  // namespace
}  // namespace fathom::testing
