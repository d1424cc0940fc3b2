// Streams by the clock: when bytes are written, whatever the model does meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/http/client_socket.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
constexpr std::string_view kComment = ": keep-alive\n\n";

// Keeps the time of each write, and has a client that leaves after a while.
struct TimedExchange final : HttpExchange {
  struct Piece {
    milliseconds time;  // since the request
    std::string text;
  };

  void Send(HttpResponse response) override {
    head = std::move(response);
    Keep(head.body);
  }
  bool StartStream(HttpResponse response) override {
    head = std::move(response);
    return Write(head.body);
  }
  bool Write(std::string_view piece) override {
    Keep(piece);
    return !ClientIsGone();
  }
  bool ClientIsGone() override { return Clock::now() - start > leaves_after; }
  void DropSlowClient() override {}

  void Keep(std::string_view text) {
    pieces.push_back(
        {std::chrono::duration_cast<milliseconds>(Clock::now() - start), std::string(text)});
  }
  std::string Text() const {
    std::string text;
    for (const Piece& piece : pieces) text += piece.text;
    return text;
  }
  milliseconds LongestSilence() const {
    milliseconds longest(0);
    milliseconds last(0);
    for (const Piece& piece : pieces) {
      longest = std::max(longest, piece.time - std::exchange(last, piece.time));
    }
    return longest;
  }
  int Count(std::string_view text) const {
    return static_cast<int>(std::count_if(pieces.begin(), pieces.end(),
                                          [&](const Piece& piece) { return piece.text == text; }));
  }

  const Clock::time_point start = Clock::now();
  Clock::duration leaves_after = std::chrono::hours(1);
  HttpResponse head;
  std::vector<Piece> pieces;
};

class ServiceStreamsTest : public ServiceTest {
 protected:
  ServiceStreamsTest() {
    options_.generation.keep_alive = milliseconds(40);
    model_.limits.max_context = 8192;
  }

  void Stream(const std::string& path, const std::string& fields, TimedExchange* exchange) {
    const std::string input = path == "/v1/responses" ? R"("input": "Hi")"
                              : path == "/v1/completions"
                                  ? R"("prompt": "Hi")"
                                  : R"("messages": [{"role": "user", "content": "Hi"}])";
    const std::string body = R"({"stream": true, "model": "m", )" + input + fields + "}";
    service().Handle({.method = "POST", .path = path, .body = body}, *exchange);
  }
  TimedExchange Stream(const std::string& path, const std::string& fields = "") {
    TimedExchange exchange;
    Stream(path, fields, &exchange);
    return exchange;
  }
  std::int64_t PromptTokens() {
    const Json whole = ReadJson(Ask("POST", "/v1/messages/count_tokens",
                                    R"({"messages": [{"role": "user", "content": "Hi"}]})"));
    return whole["input_tokens"].get<std::int64_t>();
  }
};

std::string Repeated(std::string_view text, int n) {
  std::string repeated;
  for (int i = 0; i < n; ++i) repeated += text;
  return repeated;
}

struct SilentAnswer {
  const char* path;
  std::string fields;
  std::string text;
};

// Tokens come faster than the server looks for a silence, and print nothing.
std::vector<SilentAnswer> SilentAnswers() {
  const std::string thought = Repeated(" and", 120) + "</think>Hello.";
  const std::string list =
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
      "name=\"n\" "
      "string=\"false\">[1" +
      Repeated(", 1", 60) + "]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  const std::string schema = R"({"type": "object", "properties": {"n": {"type": "array"}}})";
  const std::string function = R"("name": "f", "parameters": )" + schema;
  const std::string think = R"(, "thinking": {"type": "enabled"})";
  return {
      {"/v1/messages", R"(, "thinking": {"type": "enabled", "display": "omitted"})", thought},
      {"/v1/messages", think + R"(, "tools": [{"name": "f", "input_schema": )" + schema + "}]",
       list},
      {"/v1/chat/completions", think + R"(, "include_reasoning": false)", thought},
      {"/v1/chat/completions", R"(, "reasoning": {"enabled": true, "exclude": true})", thought},
      {"/v1/chat/completions",
       think + R"(, "tools": [{"type": "function", "function": {)" + function + "}}]", list},
      {"/v1/responses", think + R"(, "tools": [{"type": "function", )" + function + "}]", list},
      // Text that may be the beginning of a stop string is held back.
      {"/v1/completions", R"(, "stop": [")" + Repeated(" and", 128) + R"("])",
       Repeated(" and", 120)},
  };
}

TEST_F(ServiceStreamsTest, NoStreamIsSilentWhileTokensPrintNothing) {
  for (const SilentAnswer& silent : SilentAnswers()) {
    SCOPED_TRACE(silent.path + silent.fields.substr(0, 100));
    answer_ = ScriptedAnswer{.text = silent.text, .delay = milliseconds(5)};
    const TimedExchange stream = Stream(silent.path, silent.fields);
    ASSERT_EQ(stream.head.status, 200) << stream.Text();
    EXPECT_GT(stream.pieces.back().time, milliseconds(500)) << "the answer is long enough";
    EXPECT_LT(stream.LongestSilence(), milliseconds(300));
    const bool has_events = std::string_view(silent.path) == "/v1/messages";
    EXPECT_GT(stream.Count(has_events ? kPing : kComment), 3);
    EXPECT_EQ(stream.Count(has_events ? kComment : kPing), 0);
  }
}

TEST_F(ServiceStreamsTest, WritingIsASignOfLife) {
  answer_ =
      ScriptedAnswer{.text = Repeated(" and", 100) + "</think>Hello.", .delay = milliseconds(2)};
  options_.generation.keep_alive = std::chrono::seconds(1);
  for (const char* path : {"/v1/messages", "/v1/chat/completions", "/v1/responses"}) {
    const TimedExchange stream = Stream(path, R"(, "thinking": {"type": "enabled"})");
    EXPECT_EQ(stream.Count(kPing) + stream.Count(kComment), 0) << path;
  }
}

TEST_F(ServiceStreamsTest, MessagesBeginInTheQueue) {
  answer_ = ScriptedAnswer{
      .text = "So.</think>Hello.", .cached_tokens = 3, .first_delay = milliseconds(300)};
  const std::int64_t n_prompt = PromptTokens();
  const TimedExchange stream = Stream("/v1/messages", R"(, "thinking": {"type": "disabled"})");
  const std::string& start = stream.pieces.front().text;
  EXPECT_TRUE(start.starts_with("event: message_start\ndata: {\"type\":\"message_start\","));
  EXPECT_THAT(start, HasSubstr("\"usage\":{\"input_tokens\":" + std::to_string(n_prompt) +
                               ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
                               "\"output_tokens\":0}}}\n\n" +
                               std::string(kPing)));
  EXPECT_TRUE(start.ends_with(kPing)) << "nothing of the answer is known";
  EXPECT_LT(stream.pieces.front().time, milliseconds(250));
  EXPECT_GE(stream.Count(kPing), 3) << "while it waits";
  const std::string text = stream.Text();
  EXPECT_EQ(text.find("message_start", start.size()), std::string::npos) << "it begins once";
  EXPECT_THAT(text, Not(HasSubstr(": keep-alive")));
  EXPECT_THAT(text, HasSubstr("\"usage\":{\"input_tokens\":" + std::to_string(n_prompt - 3) +
                              ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":3,"));
  EXPECT_TRUE(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  EXPECT_GE(records_.back().first_token_seconds, 0.3) << "the start is no token";
}

TEST_F(ServiceStreamsTest, OtherStreamsBeginWithTheirFirstToken) {
  answer_->first_delay = milliseconds(200);
  for (const char* path : {"/v1/chat/completions", "/v1/responses", "/v1/completions"}) {
    const TimedExchange stream = Stream(path);
    EXPECT_EQ(stream.pieces.front().text, kComment) << path;
    EXPECT_GE(stream.Count(kComment), 3) << path;
    EXPECT_THAT(stream.Text(), Not(HasSubstr("event: ping"))) << path;
  }
}

// One write less, and a status that clients see.
TEST_F(ServiceStreamsTest, AnAnswerThatIsReadySoonComesInOneWrite) {
  options_.generation.watch = std::chrono::seconds(10);
  const TimedExchange stream = Stream("/v1/messages", R"(, "thinking": {"type": "disabled"})");
  EXPECT_TRUE(stream.pieces.front().text.starts_with("event: message_start\n"));
  EXPECT_THAT(stream.pieces.front().text, HasSubstr("content_block_delta"));
  answer_->text = "";
  answer_->finish = FinishReason::kError;
  answer_->error = Error{ErrorCode::kIo, "the disk is gone"};
  EXPECT_EQ(Stream("/v1/messages").head.status, 500);
}

TEST_F(ServiceStreamsTest, RefusalsKeepTheirStatus) {
  options_.access.api_keys = {"key"};
  EXPECT_EQ(Stream("/v1/messages").head.status, 401);
  options_.access.api_keys.clear();
  service_.reset();
  EXPECT_EQ(Stream("/v1/messages", R"(, "max_tokens": "many")").head.status, 400);
  const TimedExchange long_prompt =
      Stream("/v1/messages", R"(, "system": ")" + Repeated(" and", 9000) + "\"");
  EXPECT_EQ(long_prompt.head.status, 400);
  EXPECT_THAT(long_prompt.Text(), HasSubstr("prompt is too long: "));
  answer_ = MakeError(ErrorCode::kResourceExhausted, "the queue is full");
  const TimedExchange full = Stream("/v1/messages");
  EXPECT_EQ(full.head.status, 429);
  EXPECT_EQ(HttpRequest{.fields = full.head.fields}.Field("Retry-After"), "1");
  answer_ = MakeError(ErrorCode::kUnavailable, "the engine is shutting down");
  EXPECT_EQ(Stream("/v1/messages").head.status, 529);
}

// Codex reads the event alone; the other APIs have clients that read the status.
TEST_F(ServiceStreamsTest, AFullContextIsAnEventOfResponses) {
  const std::string text = Repeated(" and", 9000);
  const TimedExchange failed = Stream("/v1/responses", R"(, "instructions": ")" + text + "\"");
  EXPECT_EQ(failed.head.status, 200);
  EXPECT_EQ(failed.head.content_type, "text/event-stream; charset=utf-8");
  const std::string events = failed.Text();
  EXPECT_TRUE(events.starts_with("event: response.created\ndata: {\"type\":\"response.created\","));
  const std::size_t second = events.find("\n\n") + 2;
  EXPECT_THAT(
      events.substr(second),
      ::testing::StartsWith("event: response.failed\ndata: {\"type\":\"response.failed\","));
  EXPECT_THAT(events.substr(second),
              HasSubstr(R"("error":{"code":"context_length_exceeded","message":"This model's )"));
  EXPECT_EQ(events.find("\n\n", second), events.size() - 2) << "two events";
  EXPECT_EQ(runner_.submitted(), 0);
  EXPECT_THAT(records_.back().error, HasSubstr("maximum context length"));
  EXPECT_EQ(Ask("POST", "/v1/responses", R"({"input": ")" + text + "\"}").head.status, 400);
  const TimedExchange wrong = Stream("/v1/responses", R"(, "temperature": "warm")");
  EXPECT_EQ(wrong.head.status, 400) << "other errors keep their status";
  const std::string system = R"({"role": "system", "content": ")" + text + "\"}";
  const FakeExchange chat =
      Ask("POST", "/v1/chat/completions", R"({"stream": true, "messages": [)" + system + "]}");
  EXPECT_EQ(chat.head.status, 400);
}

TEST_F(ServiceStreamsTest, LaterFaultsOfMessagesAreEvents) {
  answer_ = ScriptedAnswer{.text = "",
                           .finish = FinishReason::kError,
                           .error = Error{ErrorCode::kIo, "the disk is gone"},
                           .first_delay = milliseconds(100)};
  const TimedExchange failed = Stream("/v1/messages");
  EXPECT_EQ(failed.head.status, 200);
  EXPECT_TRUE(failed.pieces.front().text.starts_with("event: message_start\n"));
  EXPECT_TRUE(failed.pieces.back().text.starts_with(
      R"(event: error)"
      "\n"
      R"(data: {"type":"error","error":{"type":"api_error","message":"the disk is gone"})"));
  EXPECT_THAT(failed.Text(), Not(HasSubstr("message_stop")));
  answer_ = ScriptedAnswer{.text = "Hello.", .first_delay = std::chrono::seconds(60)};
  options_.generation.time_limit = milliseconds(100);
  service_.reset();
  const TimedExchange late = Stream("/v1/messages");
  EXPECT_EQ(late.head.status, 200);
  EXPECT_THAT(late.pieces.back().text, HasSubstr("event: error\ndata: {\"type\":\"error\","));
  EXPECT_EQ(runner_.cancelled(), 1);
}

TEST_F(ServiceStreamsTest, AClientThatLeavesIsNoticedWhileTokensPrintNothing) {
  options_.generation.keep_alive = std::chrono::seconds(10);
  answer_ =
      ScriptedAnswer{.text = Repeated(" and", 2000) + "</think>Hello.", .delay = milliseconds(5)};
  TimedExchange exchange;
  exchange.leaves_after = milliseconds(100);
  Stream("/v1/messages", R"(, "thinking": {"type": "enabled", "display": "omitted"})", &exchange);
  EXPECT_LT(Clock::now() - exchange.start, std::chrono::seconds(1));
  EXPECT_EQ(runner_.cancelled(), 1);
  EXPECT_EQ(records_.back().finish, "cancelled");
}

// As a client sees it: the start comes long before the first token.
TEST_F(ServiceStreamsTest, TheStartOfAMessageReachesTheClientAtOnce) {
  options_.access.api_keys = {"key"};
  answer_->first_delay = milliseconds(500);
  const Result<std::unique_ptr<HttpServer>> server = service().Listen({.port = 0});
  ASSERT_TRUE(server);
  ClientSocket client((*server)->port());
  const Clock::time_point start = Clock::now();
  client.Send(Post("/v1/messages", kStream, "x-api-key: key\r\n"));
  EXPECT_THAT(client.ReadUntil("event: ping"), HasSubstr("event: message_start"));
  EXPECT_LT(Clock::now() - start, milliseconds(400));
  client.ReadUntil("message_stop\"}");
  EXPECT_GE(Clock::now() - start, milliseconds(500));
}

}  // namespace
}  // namespace fathom::testing
