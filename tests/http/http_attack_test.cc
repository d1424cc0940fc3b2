// Bytes that are no request, or two requests to different readers, and clients in masses.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/http/http_server_test.h"

#if defined(__SANITIZE_ADDRESS__)
// Otherwise the sanitizer keeps 256 MB of freed memory, and 1 MB for each thread; the tests count
// memory in use.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=4:thread_local_quarantine_size_kb=16";
}
#endif

namespace fathom::http {
namespace {

using std::string_literals::operator""s;
using testing::ClientResponse;
using testing::ClientSocket;
using testing::Echo;
using testing::Eventually;
using testing::Get;
using testing::Post;

// A sanitizer's threads are dear.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMany = 1'000;
constexpr double kMegabytesPerConnection = 4;
#else
constexpr int kMany = 10'000;
constexpr double kMegabytesPerConnection = 0.1;
#endif

// The number behind "NAME:" among what the system says about this process.
double StatusOfProcess(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(name.size() + 1));
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

double ResidentMegabytes() { return StatusOfProcess("VmRSS") / 1024; }

class HttpAttackTest : public testing::HttpServerTest {
 protected:
  void SetUp() override {
    Listen([this](const HttpRequest& request, HttpExchange& exchange) {
      ++n_handled_;
      Echo(request, exchange);
    });
  }

  // Nothing of it reaches the handler, and there is one answer only.
  void ExpectStatus(const std::string& request, int status) {
    SCOPED_TRACE(request.substr(0, 300));
    ClientSocket client = Connect();
    client.Send(request);
    client.EndSending();
    EXPECT_EQ(client.ReadResponse().status, status);
    EXPECT_TRUE(client.HasEnded());
    EXPECT_EQ(n_handled_, 0);
  }

  // Clients that leave at once, in different ways; not too many at a time, or the number of threads
  // would decide. The most memory seen, in MB.
  double OpenAndDrop(int n_clients) {
    constexpr int kAtOnce = 100;
    double most = 0;
    for (int i = 1; i <= n_clients; ++i) {
      ClientSocket dropped = Connect();
      if (i % 3 == 1) dropped.Send("GET / HTTP/1.1\r\n");
      if (i % 3 == 2) dropped.Send(Get("/"));
      if (i % 2 == 1) dropped.Reset();
      if (i % kAtOnce != 0) continue;
      most = std::max(most, ResidentMegabytes());
      EXPECT_TRUE(Eventually([&] { return server_->counts().connections < kAtOnce / 10; }));
    }
    return most;
  }

  std::atomic<int> n_handled_ = 0;
};

TEST_F(HttpAttackTest, WhatIsNoRequest) {
  for (const std::string& line :
       {"\0\0\0\0\r\n\r\n"s, "\x16\x03\x01\x02\r\n\r\n"s, " GET / HTTP/1.1"s, "GET"s, "GET /"s,
        "GET  / HTTP/1.1"s, "GET / HTTP/1.1 "s, "GET /\x01 HTTP/1.1"s, "GET /\0 HTTP/1.1"s,
        "G\x80T / HTTP/1.1"s, "GET /a b HTTP/1.1"s, "GET / HTTX/1.1"s, "GET / HTTP/1"s,
        "GET / HTTP/11.1"s, "GET / http/1.1"s, "GET / HTTP/1.1\nHost: x\n"s}) {
    SCOPED_TRACE(line);
    ClientSocket client = Connect();
    client.Send(line + "\r\nHost: x\r\n\r\n");
    client.EndSending();
    const int status = client.ReadResponse().status;
    EXPECT_TRUE(status == 400 || status == 505) << status;
    EXPECT_TRUE(client.HasEnded());
  }
  EXPECT_EQ(n_handled_, 0);
}

TEST_F(HttpAttackTest, OtherVersions) {
  ExpectStatus("GET /\r\n\r\n", 400);  // HTTP/0.9
  for (const std::string version : {"0.9", "1.2", "2.0", "3.0"}) {
    ExpectStatus("GET / HTTP/" + version + "\r\nHost: x\r\n\r\n", 505);
  }
  ExpectStatus("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
}

TEST_F(HttpAttackTest, WrongFields) {
  for (const std::string& field :
       {"A"s, "A b: c"s, "A : b"s, ": b"s, "A: \0"s, "A: b\0c"s, "A\0: b"s, "A: b\rc"s,
        "A: b\nc: d"s, "A: \x7f"s, "\x80: b"s, "Host: y"s}) {
    ExpectStatus("GET / HTTP/1.1\r\nHost: x\r\n" + field + "\r\n\r\n", 400);
  }
  ExpectStatus("GET / HTTP/1.1\r\n\r\n", 400);
  ExpectStatus("GET / HTTP/1.1\r\n", 400);
  ExpectStatus("GET / HTTP/1.1\r\nHost: x\r\nExpect: a cake\r\n\r\n", 417);
}

// A proxy and we must not see the end of a body at different places.
TEST_F(HttpAttackTest, SmuggledRequests) {
  const std::string begin = "POST / HTTP/1.1\r\nHost: x\r\n";
  const std::string end = "\r\n\r\n0\r\n\r\n" + Get("/smuggled");
  for (const std::string fields :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length: +5",
        "Content-Length: -1", "Content-Length: 0x5", "Content-Length: 5 ;",
        "Content-Length:", "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
        "chunked"}) {
    ExpectStatus(begin + fields + end, 400);
  }
  for (const std::string fields :
       {"Transfer-Encoding: gzip, chunked", "Transfer-Encoding: gzip",
        "Transfer-Encoding:", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: \"chunked\""}) {
    ExpectStatus(begin + fields + end, 501);
  }
  ExpectStatus("POST / HTTP/1.0\r\nTransfer-Encoding: chunked" + end, 400);
}

TEST_F(HttpAttackTest, WrongChunks) {
  const std::string begin = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& chunks :
       {"\r\n"s, "x\r\n"s, "-1\r\n"s, "0x1\r\na\r\n0\r\n\r\n"s, "1\na\n0\n\n"s, " 1\r\na\r\n"s,
        "1\r\nab\r\n0\r\n\r\n"s, "2\r\na\r\n0\r\n\r\n"s, "1\r\na0\r\n\r\n"s, "1;\r\na\r\n"s,
        "1\r\na\r\n"s, "0\r\n"s, "0\r\nA\r\n\r\n"s, "0\r\nContent-Length: 1\r\n\r\n"s,
        "0\r\nTransfer-Encoding: chunked\r\n\r\n"s, "1\0\r\na\r\n0\r\n\r\n"s, "1;a=\"\r\na\r\n"s}) {
    ExpectStatus(begin + chunks, 400);
  }
  const ClientResponse too_large = Ask(begin + "10000000000000000\r\n");
  EXPECT_TRUE(too_large.status == 400 || too_large.status == 413) << too_large.status;
}

TEST_F(HttpAttackTest, ARequestThatEndsTooEarly) {
  const std::string whole = Post("/", "body");
  for (std::size_t n = 1; n < whole.size(); ++n) {
    ClientSocket client = Connect();
    client.Send(whole.substr(0, n));
    switch (n % 3) {
      case 0:
        client.Close();
        break;
      case 1:
        client.Reset();
        break;
      default:
        client.EndSending();
        EXPECT_EQ(client.ReadResponse().status, 400);
    }
  }
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(n_handled_, 0);
  EXPECT_EQ(server_->counts().body_bytes, 0U);
}

// The first time fills what the process keeps: threads that wait for more work, what the allocator
// has. The second time needs no more: not a page for each connection.
TEST_F(HttpAttackTest, TenThousandConnectionsOpenedAndDropped) {
  constexpr double kMostMegabytes = 10'000 * 4096 / 1e6;
  constexpr int kWarmUp = 10'000;  // fewer would not do for a sanitizer's allocator
  ClientSocket client = Connect();
  EXPECT_EQ(client.Ask(Get("/")).status, 200);
  const double n_threads = StatusOfProcess("Threads");
  std::atomic<bool> is_over = false;
  std::atomic<int> n_served = 0;
  std::jthread serving([&] {
    while (!is_over) {
      EXPECT_EQ(client.Ask(Get("/")).status, 200);
      ++n_served;
    }
  });
  const double first = OpenAndDrop(kWarmUp);
  const double second = OpenAndDrop(kMany);
  is_over = true;
  serving.join();
  EXPECT_GT(n_served, 0);
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_LT(StatusOfProcess("Threads") - n_threads, 4096);
  EXPECT_LT(second - first, kMostMegabytes);
}

TEST_F(HttpAttackTest, ManyOpenConnectionsAreCheap) {
  constexpr int kOpen = kMany / 5;
  const double before = ResidentMegabytes();
  std::vector<ClientSocket> open;
  for (int i = 0; i < kOpen; ++i) {
    open.push_back(Connect());
    // The second half stops in the middle of a header.
    if (i >= kOpen / 2) open.back().Send("GET / HTTP/1.1\r\n");
  }
  EXPECT_TRUE(Eventually([&] { return server_->counts().connections == open.size(); }));
  EXPECT_EQ(Ask(Get("/")).status, 200);
  EXPECT_LT(ResidentMegabytes() - before, kMegabytesPerConnection * kOpen);
  server_->Stop();
  for (ClientSocket& client : open) EXPECT_TRUE(client.HasEnded());
}

}  // namespace
}  // namespace fathom::http
