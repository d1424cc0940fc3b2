// Bounds the cost of a request before it is whole: heads that are refused, bodies that stop, and
// the reserve.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/http/http_server_test.h"

namespace fathom::http {
namespace {

using std::chrono::milliseconds;
using testing::ClientResponse;
using testing::ClientSocket;
using testing::Echo;
using testing::Eventually;
using testing::Get;
using testing::Post;

const std::string kHalf = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx";

class HttpHeadTest : public testing::HttpServerTest {
 protected:
  // A server that wants a key for requests with a body.
  void ListenWithKey(HttpLimits limits = {}) {
    options_.answer_head = [](const HttpRequest& head, HttpExchange& exchange) {
      EXPECT_EQ(head.body, "");
      if (!head.Field("key").empty()) return false;
      exchange.Send({.status = 401, .body = "no key"});
      return true;
    };
    Listen(Echo, limits);
  }

  // A server that is vital at /vital and answers nothing until it may.
  void ListenBusy(HttpLimits limits) {
    options_.is_vital = [](const HttpRequest& head) { return head.path == "/vital"; };
    Listen(
        [this](const HttpRequest& request, HttpExchange& exchange) {
          while (request.path != "/vital" && !may_end_) {
            std::this_thread::sleep_for(milliseconds(1));
          }
          Echo(request, exchange);
        },
        limits);
  }

  std::vector<ClientSocket> Open(std::size_t n, const std::string& bytes) {
    std::vector<ClientSocket> clients;
    for (std::size_t i = 0; i < n; ++i) {
      clients.push_back(Connect());
      clients.back().Send(bytes);
    }
    return clients;
  }

  std::atomic<bool> may_end_ = false;
};

TEST_F(HttpHeadTest, NothingOfTheBodyIsAskedForOrHeld) {
  ListenWithKey({.all_body_bytes = 1000});
  for (const std::string field : {"", "Expect: 100-continue\r\n"}) {
    ClientSocket client = Connect();
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n" + field + "\r\n");
    const ClientResponse refused = client.ReadResponse();
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.body, "no key");
    EXPECT_EQ(refused.Field("Connection"), "close");
    client.Send(std::string(900, 'x'));
    EXPECT_EQ(server_->counts().body_bytes, 0U);
    EXPECT_TRUE(client.HasEnded());
  }
  EXPECT_EQ(Ask(Post("/", std::string(900, 'x'), "key: a\r\n")).status, 200);
  EXPECT_EQ(Ask(Get("/")).status, 200) << "the handler looks at requests without a body";
}

TEST_F(HttpHeadTest, ACheckThatThrowsIsAnError) {
  options_.answer_head = [](const HttpRequest&, HttpExchange&) -> bool {
    throw std::runtime_error("x");
  };
  Listen();
  ClientSocket client = Connect();
  client.Send(kHalf);
  EXPECT_EQ(client.ReadResponse().status, 500);
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(HttpHeadTest, BodiesWithoutProgressMakeRoom) {
  Listen(Echo, {.connections = 4});
  std::vector<ClientSocket> half = Open(4, kHalf);
  ASSERT_TRUE(Eventually([&] { return server_->counts().body_bytes == 4; }));
  half.front().Send("x");
  ASSERT_TRUE(Eventually([&] { return server_->counts().body_bytes == 5; }));
  EXPECT_EQ(Ask(Get("/")).status, 200);
  EXPECT_TRUE(half[1].HasEnded()) << "the one without a byte for longest";
  EXPECT_TRUE(half[0].IsOpen());
  EXPECT_TRUE(half[2].IsOpen());
  EXPECT_TRUE(half[3].IsOpen());
  EXPECT_EQ(server_->counts().refused, 1U);
}

TEST_F(HttpHeadTest, VitalRequestsGetThroughWhenAllIsBusy) {
  ListenBusy({.connections = 2, .reserve = 2});
  std::vector<ClientSocket> busy = Open(2, Post("/", "body"));
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 2; }));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask(Get("/vital")).status, 200);
    EXPECT_EQ(Ask(Get("/")).status, 503);
    EXPECT_EQ(Ask(kHalf).status, 503) << "before its body";
    // Whoever is silent in the reserve gives way.
    const std::vector<ClientSocket> silent = Open(5, i % 2 == 0 ? "" : "GET /vital HT");
    EXPECT_EQ(Ask(Get("/vital")).status, 200);
    EXPECT_LE(server_->counts().connections, 6U);
  }
  may_end_ = true;
  for (ClientSocket& client : busy) EXPECT_EQ(client.ReadResponse().body, "POST /  body");
}

// Such clients need no key: what is open to all suffices.
TEST_F(HttpHeadTest, ClientsThatDoNotReadMakeRoom) {
  options_.is_vital = [](const HttpRequest& head) { return head.path == "/vital"; };
  const std::string long_answer(16 << 20, 'x');
  Listen(
      [&](const HttpRequest& request, HttpExchange& exchange) {
        exchange.Send({.body = request.query == "long" ? long_answer : "short"});
      },
      {.connections = 4, .reserve = 2});
  std::vector<ClientSocket> deaf = Open(4, Get("/?long"));
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 4; }));
  for (ClientSocket& client : Open(6, Get("/vital?long"))) deaf.push_back(std::move(client));
  // Once their answers are written as far as they go.
  ASSERT_TRUE(Eventually([&] { return Ask(Get("/")).status == 200; }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Ask(Get("/")).body, "short");
    EXPECT_EQ(Ask(Get("/vital")).body, "short");
  }
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections <= 4; }));
  EXPECT_EQ(Ask(Get("/?long")).body.size(), long_answer.size()) << "to a client that reads";
}

TEST_F(HttpHeadTest, TheReserveIsForNobodyElse) {
  ListenBusy({.connections = 3, .reserve = 2});
  std::vector<ClientSocket> busy = Open(2, Get("/"));
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 2; }));
  ClientSocket last = Connect();
  last.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx");
  ASSERT_TRUE(Eventually([&] { return server_->counts().body_bytes == 1; }));
  busy.push_back(Connect());
  busy.back().Send(Get("/"));
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 3; }));
  last.Send("x");
  EXPECT_EQ(last.ReadResponse().status, 503) << "there was room when its body began";
  EXPECT_EQ(Ask(Get("/vital")).status, 200);
  may_end_ = true;
  for (ClientSocket& client : busy) EXPECT_EQ(client.ReadResponse().status, 200);
}

}  // namespace
}  // namespace fathom::http
