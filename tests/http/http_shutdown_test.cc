// The end of a server: orderly with Drain, at once with Stop.
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
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

// None if nobody listens there.
Descriptor TryToConnect(int port) {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_connected =
      ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  return is_connected ? std::move(fd) : Descriptor();
}

class HttpShutdownTest : public testing::HttpServerTest {
 protected:
  // A stream that goes on until it may end, or its client is gone.
  void ListenWithStream() {
    Listen([this](const HttpRequest& request, HttpExchange& exchange) {
      if (request.path != "/stream") return Echo(request, exchange);
      bool is_there = exchange.StartStream({.body = "begin"});
      while (is_there && !may_end_) {
        std::this_thread::sleep_for(milliseconds(1));
        is_there = !exchange.ClientIsGone();
      }
      is_there = is_there && exchange.Write("end");
      was_there_ = is_there;
      ++n_ended_;
    });
  }

  std::atomic<bool> may_end_ = false;
  std::atomic<bool> was_there_ = false;
  std::atomic<int> n_ended_ = 0;
};

TEST_F(HttpShutdownTest, DrainFinishesAStream) {
  ListenWithStream();
  ClientSocket streaming = Connect();
  streaming.Send(Get("/stream") + Get("/never"));
  std::string all = streaming.ReadUntil("begin");
  ClientSocket idle = Connect();
  EXPECT_EQ(idle.Ask(Get("/")).status, 200);
  ClientSocket fresh = Connect();
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections == 3; }));
  server_->Drain();
  EXPECT_TRUE(idle.HasEnded());
  EXPECT_TRUE(fresh.HasEnded());
  EXPECT_FALSE(server_->WaitFor(milliseconds(20)));
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 1; }));
  may_end_ = true;
  all += streaming.ReadAll();
  EXPECT_TRUE(all.ends_with("begin\r\n3\r\nend\r\n0\r\n\r\n")) << all;
  EXPECT_TRUE(was_there_);
  EXPECT_TRUE(BecomesEmpty());
}

TEST_F(HttpShutdownTest, DrainLetsABegunRequestEnd) {
  Listen();
  ClientSocket begun = Connect();
  begun.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Len");
  ASSERT_TRUE(Eventually([&] { return server_->counts().connections == 1; }));
  std::this_thread::sleep_for(milliseconds(20));  // for the bytes to be read
  server_->Drain();
  const ClientResponse response = begun.Ask("gth: 2\r\n\r\nok");
  EXPECT_EQ(response.body, "POST /  ok");
  EXPECT_EQ(response.Field("Connection"), "close");
  EXPECT_TRUE(begun.HasEnded());
  EXPECT_TRUE(BecomesEmpty());
}

TEST_F(HttpShutdownTest, NobodyIsAcceptedAfterDrain) {
  Listen();
  EXPECT_GE(TryToConnect(server_->port()).get(), 0);
  server_->Drain();
  EXPECT_EQ(TryToConnect(server_->port()).get(), -1);
  server_->Drain();
  server_->Stop();
  server_->Stop();
  EXPECT_TRUE(server_->WaitFor(milliseconds(0)));
}

TEST_F(HttpShutdownTest, StopEndsAStream) {
  ListenWithStream();
  ClientSocket streaming = Connect();
  streaming.Send(Get("/stream"));
  streaming.ReadUntil("begin");
  ClientSocket idle = Connect();
  ClientSocket half = Connect();
  half.Send("GET /");
  server_->Stop();
  EXPECT_EQ(n_ended_, 1);
  EXPECT_FALSE(was_there_);
  EXPECT_TRUE(server_->WaitFor(milliseconds(0)));
  EXPECT_TRUE(streaming.HasEnded());
  EXPECT_TRUE(idle.HasEnded());
  EXPECT_TRUE(half.HasEnded());
}

TEST_F(HttpShutdownTest, StopEndsAWriteThatWaits) {
  std::atomic<bool> has_failed = false;
  const std::string piece(1 << 20, 'x');
  Listen([&](const HttpRequest&, HttpExchange& exchange) {
    EXPECT_TRUE(exchange.StartStream({}));
    while (exchange.Write(piece)) {
    }
    has_failed = true;
  });
  ClientSocket client = Connect();
  client.Send(Get("/"));
  client.ReadUntil("xxx");
  server_->Stop();
  EXPECT_TRUE(has_failed);
}

TEST_F(HttpShutdownTest, TheDestructorStops) {
  ListenWithStream();
  ClientSocket streaming = Connect();
  streaming.Send(Get("/stream"));
  streaming.ReadUntil("begin");
  server_.reset();
  EXPECT_EQ(n_ended_, 1);
  EXPECT_TRUE(streaming.HasEnded());
}

TEST_F(HttpShutdownTest, StopWhileClientsComeAndGo) {
  for (int round = 0; round < 10; ++round) {
    Listen();
    std::atomic<bool> may_go_on = true;
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&, port = server_->port()] {
        while (may_go_on) {
          const Descriptor fd = TryToConnect(port);
          if (fd.get() < 0) return;
          const std::string request = Get("/") + Get("/") + "GET";
          static_cast<void>(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL));
          char byte = 0;
          static_cast<void>(::recv(fd.get(), &byte, 1, 0));
        }
      });
    }
    EXPECT_TRUE(Eventually([&] { return server_->counts().accepted > 20; }));
    std::jthread counting([&] {
      for (int i = 0; i < 100; ++i) EXPECT_LE(server_->counts().connections, 4096U);
    });
    if (round % 2 == 0) server_->Drain();
    std::jthread draining([&] { server_->Drain(); });
    server_->Stop();
    may_go_on = false;
    EXPECT_EQ(server_->counts().connections, 0U);
  }
}

}  // namespace
}  // namespace fathom::http
