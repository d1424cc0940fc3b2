// Responses that come in pieces, and clients that do not wait for the end of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "tests/http/http_server_test.h"

namespace fathom::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ClientResponse;
using testing::ClientSocket;
using testing::Eventually;
using testing::Get;

class HttpStreamTest : public testing::HttpServerTest {
 protected:
  // A handler that writes a piece, then asks `ask` until it says that the client is gone.
  void ListenUntilGone(const std::function<bool(HttpExchange&)>& is_gone) {
    Listen([this, is_gone](const HttpRequest&, HttpExchange& exchange) {
      exchange.StartStream({.content_type = "text/event-stream", .body = "begin"});
      while (!is_gone(exchange)) std::this_thread::sleep_for(milliseconds(1));
      ++n_gone_;
    });
  }

  void ExpectGone() {
    EXPECT_TRUE(Eventually([&] { return n_gone_ == 1; }));
    EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 0; }));
  }

  std::atomic<int> n_gone_ = 0;
};

bool AskIfGone(HttpExchange& exchange) { return exchange.ClientIsGone(); }
bool WriteIfGone(HttpExchange& exchange) { return !exchange.Write("piece"); }

TEST_F(HttpStreamTest, SendsEachPieceAtOnceAsAChunk) {
  std::atomic<int> n_read = 0;
  Listen([&](const HttpRequest&, HttpExchange& exchange) {
    EXPECT_TRUE(exchange.StartStream(
        {.content_type = "text/event-stream", .fields = {{"Cache-Control", "no-cache"}}}));
    for (const std::string& piece :
         {std::string("data: 1\n\n"), std::string(), std::string(300, 'x')}) {
      EXPECT_TRUE(exchange.Write(piece));
      const int n_expected = piece.empty() ? 0 : 1;
      EXPECT_TRUE(Eventually([&] { return n_read >= n_expected; }));
      n_read = 0;
    }
  });
  ClientSocket client = Connect();
  client.Send(Get("/"));
  std::string all = client.ReadUntil("\r\n9\r\ndata: 1\n\n\r\n");
  ++n_read;
  all += client.ReadUntil("12c\r\n" + std::string(300, 'x') + "\r\n");
  ++n_read;
  if (!all.ends_with("0\r\n\r\n")) all += client.ReadUntil("0\r\n\r\n");
  EXPECT_TRUE(all.ends_with("x\r\n0\r\n\r\n"));
  EXPECT_NE(all.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(all.find("Content-Length"), std::string::npos);
}

TEST_F(HttpStreamTest, TakesARequestBehindAStream) {
  Listen([](const HttpRequest& request, HttpExchange& exchange) {
    EXPECT_TRUE(exchange.StartStream({.body = "a"}));
    // The second request is in our buffer, or the system's: that client is still there.
    EXPECT_FALSE(exchange.ClientIsGone());
    EXPECT_TRUE(exchange.Write(request.path));
  });
  ClientSocket client = Connect();
  client.Send(Get("/1") + Get("/2"));
  EXPECT_EQ(client.ReadResponse().body, "a/1");
  EXPECT_EQ(client.ReadResponse().body, "a/2");
}

struct GoneCase {
  const char* name;
  bool (*is_gone)(HttpExchange&);
  void (ClientSocket::*leave)();
};

class HttpGoneTest : public HttpStreamTest, public ::testing::WithParamInterface<GoneCase> {};

TEST_P(HttpGoneTest, SeesThatAClientHasLeft) {
  ListenUntilGone(GetParam().is_gone);
  ClientSocket client = Connect();
  client.Send(Get("/"));
  client.ReadUntil("begin");
  (client.*GetParam().leave)();
  ExpectGone();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, HttpGoneTest,
    ::testing::Values(GoneCase{"ClosedAsks", AskIfGone, &ClientSocket::Close},
                      GoneCase{"ClosedWrites", WriteIfGone, &ClientSocket::Close},
                      GoneCase{"ResetAsks", AskIfGone, &ClientSocket::Reset},
                      GoneCase{"ResetWrites", WriteIfGone, &ClientSocket::Reset}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(HttpStreamTest, TakesAHalfClosedClientForGone) {
  ListenUntilGone(AskIfGone);
  ClientSocket client = Connect();
  // Behind bytes that nobody has read, too.
  client.Send(Get("/") + Get("/next"));
  client.ReadUntil("begin");
  client.EndSending();
  ExpectGone();
}

TEST_F(HttpStreamTest, AnswersAHalfClosedClientThatItDoesNotAskFor) {
  Listen();
  ClientSocket client = Connect();
  client.Send(Get("/1") + Get("/2"));
  client.EndSending();
  EXPECT_EQ(client.ReadResponse().body, "GET /1  ");
  EXPECT_EQ(client.ReadResponse().body, "GET /2  ");
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(HttpStreamTest, GivesUpAClientThatDoesNotRead) {
  constexpr milliseconds kWriteTime(300);
  std::atomic<bool> was_refused = false;
  std::atomic<milliseconds::rep> waited = 0;
  const std::string piece(1 << 20, 'x');
  Listen(
      [&](const HttpRequest&, HttpExchange& exchange) {
        EXPECT_TRUE(exchange.StartStream({}));
        auto begin = steady_clock::now();
        while (exchange.Write(piece)) begin = steady_clock::now();
        waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count();
        EXPECT_FALSE(exchange.Write("more"));
        EXPECT_TRUE(exchange.ClientIsGone());
        was_refused = true;
      },
      {.write_time = kWriteTime});
  ClientSocket client = Connect();
  client.Send(Get("/"));
  EXPECT_TRUE(Eventually([&] { return was_refused.load(); }));
  EXPECT_GE(waited, kWriteTime.count());
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 0; }));
}

TEST_F(HttpStreamTest, DropsAClientThatDoesNotReadWhenTold) {
  for (const bool waits : {true, false}) {
    std::atomic<HttpExchange*> writing = nullptr;
    std::atomic<bool> is_told = waits;
    std::atomic<bool> has_failed = false;
    std::atomic<int> n_written = 0;
    const std::string piece(1 << 10, 'x');
    Listen([&](const HttpRequest&, HttpExchange& exchange) {
      EXPECT_TRUE(exchange.StartStream({}));
      writing = &exchange;
      while (!is_told) std::this_thread::sleep_for(milliseconds(1));
      while (exchange.Write(piece)) ++n_written;
      has_failed = true;
      while (writing != nullptr) std::this_thread::sleep_for(milliseconds(1));
    });
    ClientSocket client = Connect();
    client.Send(Get("/"));
    ASSERT_TRUE(Eventually([&] { return writing != nullptr; }));
    if (waits) {  // until a write waits for the client
      int n_before = -1;
      while (n_before != n_written) {
        n_before = n_written;
        std::this_thread::sleep_for(milliseconds(300));
      }
      EXPECT_FALSE(has_failed);
    }
    writing.load()->DropSlowClient();
    is_told = true;
    EXPECT_TRUE(Eventually([&] { return has_failed.load(); }));
    EXPECT_GT(n_written, 0) << "what need not wait is written";
    writing = nullptr;
    EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 0; }));
    server_.reset();
  }
}

TEST_F(HttpStreamTest, IsPatientWithAClientThatReadsSlowly) {
  constexpr milliseconds kWriteTime(400);
  const std::string body(12 << 20, 'x');
  Listen([&](const HttpRequest&, HttpExchange& exchange) { exchange.Send({.body = body}); },
         {.write_time = kWriteTime});
  ClientSocket client = Connect();
  client.Send(Get("/"));
  // Longer than write_time in all, with something read in between each time.
  std::size_t n_bytes = 0;
  const auto end = steady_clock::now() + 3 * kWriteTime;
  while (steady_clock::now() < end) {
    for (int i = 0; i < 8; ++i) n_bytes += client.Read().size();
    std::this_thread::sleep_for(kWriteTime / 8);
  }
  n_bytes += client.ReadUntil("xxx").size();
  while (n_bytes < body.size()) {
    const std::string piece = client.Read();
    ASSERT_FALSE(piece.empty()) << "cut off after " << n_bytes;
    n_bytes += piece.size();
  }
}

}  // namespace
}  // namespace fathom::http
