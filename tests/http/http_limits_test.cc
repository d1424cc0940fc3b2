// Requests beyond a limit are answered with their status, and the client can read the answer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using testing::Echo;
using testing::Eventually;
using testing::Get;
using testing::Post;

constexpr std::string_view kChunkedPost =
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

class HttpLimitsTest : public testing::HttpServerTest {
 protected:
  // The only answer, behind which the connection ends.
  void ExpectRefusal(ClientSocket& client, int status) {
    const ClientResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, status);
    EXPECT_TRUE(response.is_whole);
    EXPECT_EQ(response.Field("Connection"), "close");
    EXPECT_EQ(response.Field("Content-Type"), "text/plain; charset=utf-8");
    EXPECT_FALSE(response.body.empty());
    EXPECT_TRUE(client.HasEnded());
  }
  void ExpectRefusal(std::string_view request, int status) {
    SCOPED_TRACE(request.substr(0, 300));
    ClientSocket client = Connect();
    client.Send(request);
    ExpectRefusal(client, status);
  }

  // Steadily a little more behind `begin`: the time is that of the whole.
  void ExpectRefusalOfSlow(std::string_view begin, std::string_view piece, milliseconds time) {
    ClientSocket client = Connect();
    const auto start = steady_clock::now();
    client.Send(begin);
    while (client.IsOpen()) {
      client.Send(piece);
      std::this_thread::sleep_for(time / 10);
      ASSERT_LT(steady_clock::now() - start, testing::kLong);
    }
    EXPECT_GE(steady_clock::now() - start, time);
    ExpectRefusal(client, 408);
  }
};

TEST_F(HttpLimitsTest, Header) {
  Listen(Echo, {.header_bytes = 1000});
  const std::string shorter = Get("/", "A: " + std::string(900, 'a') + "\r\n");
  const std::string longer = Get("/", "A: " + std::string(1000, 'a') + "\r\n");
  const std::size_t n_free = 1000 - shorter.size();
  const std::string longest = Get("/", "A: " + std::string(900 + n_free, 'a') + "\r\n");
  EXPECT_EQ(Ask(longest).status, 200);
  EXPECT_EQ(Ask(longest + longest).status, 200);
  ExpectRefusal(longer, 431);
  ExpectRefusal(Get("/" + std::string(1000, 'a')), 431);
  ExpectRefusal(std::string(100'000, 'a'), 431);
  std::string fields;
  for (int i = 0; i < 200; ++i) fields += "a: b\r\n";
  ExpectRefusal(Get("/", fields), 431);
  EXPECT_EQ(server_->counts().refused, 4U);
}

TEST_F(HttpLimitsTest, HeaderInManySmallPieces) {
  Listen(Echo, {.header_bytes = 1000});
  ClientSocket client = Connect();
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 250; ++i) client.Send("a: b\r\n");
  ExpectRefusal(client, 431);
}

TEST_F(HttpLimitsTest, FieldsOfAHeader) {
  Listen(Echo, {.fields = 10});
  const auto with_fields = [](int n_fields) {
    std::string fields;
    for (int i = 1; i < n_fields; ++i) fields += "a:\r\n";  // and Host
    return Get("/", fields);
  };
  EXPECT_EQ(Ask(with_fields(10)).status, 200);
  EXPECT_EQ(Ask(with_fields(10) + with_fields(10)).status, 200);
  ExpectRefusal(with_fields(11), 431);
  ExpectRefusal(with_fields(5000), 431);
}

TEST_F(HttpLimitsTest, BodyOfAKnownLength) {
  Listen(Echo, {.body_bytes = 1000});
  EXPECT_EQ(Ask(Post("/", std::string(1000, 'x'))).status, 200);
  // Not a byte of it is waited for, nor asked for.
  ExpectRefusal("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413);
  ExpectRefusal(
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413);
  ExpectRefusal("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n", 413);
  // A client that sends all of it before it reads can read the answer.
  ExpectRefusal(Post("/", std::string(5'000'000, 'x')), 413);
}

TEST_F(HttpLimitsTest, BodyInChunks) {
  Listen(Echo, {.body_bytes = 1000});
  std::string body;
  for (int i = 0; i < 100; ++i) body += "a\r\n0123456789\r\n";
  EXPECT_EQ(Ask(std::string(kChunkedPost) + body + "0\r\n\r\n").body.size(), 1008U);
  ExpectRefusal(std::string(kChunkedPost) + body + "1\r\n", 413);
  ExpectRefusal(std::string(kChunkedPost) + "3e9\r\n", 413);
  ExpectRefusal(std::string(kChunkedPost) + "ffffffffffffffff\r\n", 413);
}

TEST_F(HttpLimitsTest, AChunkedBodyOverTheLimitIsNeverHeld) {
  constexpr std::size_t kLimit = 100'000;
  Listen(Echo, {.body_bytes = kLimit});
  ClientSocket client = Connect();
  client.Send(kChunkedPost);
  std::size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!client.Send("400\r\n" + std::string(1024, 'x') + "\r\n")) break;
    most = std::max(most, server_->counts().body_bytes);
  }
  EXPECT_LE(most, kLimit);
  EXPECT_TRUE(Eventually([&] { return server_->counts().body_bytes == 0; }));
  EXPECT_EQ(client.ReadResponse().status, 413);
}

TEST_F(HttpLimitsTest, WhatStandsBetweenChunks) {
  Listen(Echo, {.header_bytes = 1000});
  ExpectRefusal(std::string(kChunkedPost) + "1;" + std::string(100'000, 'x'), 431);
  ExpectRefusal(std::string(kChunkedPost) + "0\r\nA: " + std::string(100'000, 'x'), 431);
}

TEST_F(HttpLimitsTest, AllBodiesTogether) {
  std::atomic<bool> may_end = false;
  Listen(
      [&](const HttpRequest& request, HttpExchange& exchange) {
        while (!may_end) std::this_thread::sleep_for(milliseconds(1));
        Echo(request, exchange);
      },
      {.all_body_bytes = 1000});
  ClientSocket handled = Connect();
  handled.Send(Post("/", std::string(600, 'x')));
  ClientSocket reading = Connect();
  reading.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\n" + std::string(300, 'x'));
  ASSERT_TRUE(Eventually([&] { return server_->counts().body_bytes == 900; }));
  ClientSocket third = Connect();
  third.Send(Post("/", std::string(101, 'x')));
  const ClientResponse busy = third.ReadResponse();
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.Field("Retry-After"), "1");
  EXPECT_EQ(server_->counts().body_bytes, 900U);
  may_end = true;
  EXPECT_EQ(handled.ReadResponse().status, 200);
  EXPECT_TRUE(Eventually([&] { return server_->counts().body_bytes == 300; }));
  reading.Close();
  EXPECT_TRUE(Eventually([&] { return server_->counts().body_bytes == 0; }));
  EXPECT_EQ(Ask(Post("/", std::string(1000, 'x'))).status, 200);
}

TEST_F(HttpLimitsTest, TimeOfAHeader) {
  constexpr milliseconds kTime(300);
  Listen(Echo, {.header_time = kTime});
  ExpectRefusalOfSlow("GET / HTTP/1.1\r\n", "A: b\r\n", kTime);
}

TEST_F(HttpLimitsTest, TimeOfABody) {
  constexpr milliseconds kTime(300);
  for (const std::string header :
       {"Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nfffff\r\n"}) {
    Listen(Echo, {.body_time = kTime});
    ExpectRefusalOfSlow("POST / HTTP/1.1\r\nHost: x\r\n" + header, "x", kTime);
  }
}

// Whoever sends much and then a byte from time to time would hold what was sent for long.
TEST_F(HttpLimitsTest, ABodyThatHardlyGrows) {
  constexpr milliseconds kTime(300);
  const std::string piece(8000, 'x');
  for (const std::string& begin : {"Content-Length: 100000\r\n\r\n" + piece,
                                   "Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + piece}) {
    Listen(Echo, {.body_step_time = kTime});
    ExpectRefusalOfSlow("POST / HTTP/1.1\r\nHost: x\r\n" + begin, "x", kTime);
    EXPECT_TRUE(Eventually([&] { return server_->counts().body_bytes == 0; }));
  }
}

TEST_F(HttpLimitsTest, ABodyOfConstantSpeedMayBeSlow) {
  constexpr int kBytes = 60;
  Listen(Echo, {.body_time = milliseconds(8000), .body_step_time = milliseconds(1500)});
  ClientSocket client = Connect();
  client.Send(fmt::format("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", kBytes));
  for (int i = 0; i < kBytes; ++i) {
    std::this_thread::sleep_for(milliseconds(50));  // 3 s in all: two of the steps
    client.Send("x");
  }
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST_F(HttpLimitsTest, TimeWithoutARequest) {
  constexpr milliseconds kTime(200);
  Listen(Echo, {.idle_time = kTime});
  const auto begin = steady_clock::now();
  ClientSocket never = Connect();
  ClientSocket once = Connect();
  EXPECT_EQ(once.Ask(Get("/")).status, 200);
  ClientSocket only_line_breaks = Connect();
  only_line_breaks.Send("\r\n\r\n\r");
  EXPECT_TRUE(never.HasEnded());
  EXPECT_GE(steady_clock::now() - begin, kTime);
  EXPECT_TRUE(once.HasEnded());
  EXPECT_TRUE(only_line_breaks.HasEnded());
  EXPECT_EQ(server_->counts().refused, 0U);
}

TEST_F(HttpLimitsTest, TheConnectionThatWaitedLongestMakesRoom) {
  Listen(Echo, {.connections = 3});
  // A response may be there before the server waits again.
  const auto wait_for = [&](std::size_t n_waiting) {
    return Eventually([&] { return server_->counts().waiting == n_waiting; });
  };
  ClientSocket first = Connect();
  EXPECT_EQ(first.Ask(Get("/")).status, 200);
  ASSERT_TRUE(wait_for(1));
  ClientSocket second = Connect();
  EXPECT_EQ(second.Ask(Get("/")).status, 200);
  ASSERT_TRUE(wait_for(2));
  ClientSocket third = Connect();
  EXPECT_EQ(third.Ask(Get("/")).status, 200);
  ASSERT_TRUE(wait_for(3));
  EXPECT_EQ(first.Ask(Get("/")).status, 200);
  ASSERT_TRUE(wait_for(3));
  ClientSocket fourth = Connect();
  EXPECT_EQ(fourth.Ask(Get("/")).status, 200);
  EXPECT_TRUE(second.HasEnded());
  EXPECT_EQ(first.Ask(Get("/")).status, 200);
  EXPECT_EQ(third.Ask(Get("/")).status, 200);
  EXPECT_EQ(server_->counts().connections, 3U);
  EXPECT_EQ(server_->counts().refused, 1U);
}

TEST_F(HttpLimitsTest, WhoeverDribblesAHeaderMakesRoomToo) {
  Listen(Echo, {.connections = 2});
  ClientSocket first = Connect();
  first.Send("GET / HT");
  ClientSocket second = Connect();
  second.Send("G");
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections == 2; }));
  EXPECT_EQ(Ask(Get("/")).status, 200);
  EXPECT_TRUE(first.HasEnded());
}

// When a request ends, the reserve may shrink by more than the place that has become free.
TEST_F(HttpLimitsTest, EnoughSilentConnectionsMakeRoom) {
  std::atomic<bool> may_end = false;
  std::atomic<bool> may_all_end = false;
  Listen(
      [&](const HttpRequest& request, HttpExchange& exchange) {
        const std::atomic<bool>& may = request.path == "/first" ? may_end : may_all_end;
        while (request.path != "/" && !may) std::this_thread::sleep_for(milliseconds(1));
        Echo(request, exchange);
      },
      {.connections = 4});
  std::vector<ClientSocket> busy;
  for (const char* path : {"/first", "/2", "/3", "/4"}) {
    busy.push_back(Connect());
    busy.back().Send(Get(path));
  }
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 4; }));
  std::vector<ClientSocket> silent;
  for (std::size_t i = 0; i < 4; ++i) {
    silent.push_back(Connect());
    silent.back().Send("G");
  }
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections == 8; }));
  may_end = true;
  EXPECT_EQ(busy[0].ReadResponse().status, 200);
  ASSERT_TRUE(Eventually([&] { return server_->counts().waiting == 1; }));
  EXPECT_EQ(Ask(Get("/")).status, 200);
  may_all_end = true;
  for (std::size_t i = 1; i < busy.size(); ++i) {
    EXPECT_EQ(busy[i].ReadResponse().status, 200);
  }
}

TEST_F(HttpLimitsTest, AllConnectionsAreBusy) {
  std::atomic<bool> may_end = false;
  Listen(
      [&](const HttpRequest& request, HttpExchange& exchange) {
        while (!may_end) std::this_thread::sleep_for(milliseconds(1));
        Echo(request, exchange);
      },
      {.connections = 2});
  ClientSocket first = Connect();
  first.Send(Get("/1"));
  ClientSocket second = Connect();
  second.Send(Get("/2"));
  ASSERT_TRUE(Eventually([&] { return server_->counts().handling == 2; }));
  for (int i = 0; i < 100; ++i) {
    ClientSocket refused = Connect();
    refused.Send(Get("/"));
    const ClientResponse response = refused.ReadResponse();
    ASSERT_EQ(response.status, 503);
    EXPECT_EQ(response.Field("Retry-After"), "1");
    EXPECT_EQ(response.Field("Connection"), "close");
    EXPECT_TRUE(response.is_whole);
  }
  may_end = true;
  EXPECT_EQ(first.ReadResponse().body, "GET /1  ");
  EXPECT_EQ(second.ReadResponse().body, "GET /2  ");
  EXPECT_EQ(server_->counts().refused, 100U);
  ASSERT_TRUE(Eventually([&] { return server_->counts().waiting == 2; }));
  EXPECT_EQ(Ask(Get("/")).status, 200);
}

}  // namespace
}  // namespace fathom::http
