#include "http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netdb.h>

#include <string>

#include "tests/http/client_socket.h"

namespace fathom::http {
namespace {

using testing::ClientSocket;
using ::testing::HasSubstr;

bool HasIpv6() { return Listener::Open("::1", 0).has_value(); }

std::string PeerSeenFrom(Listener& listener, const std::string& address) {
  const ClientSocket client(listener.port(), address);
  const std::optional<Listener::Arrival> arrival = listener.Accept(10'000);
  return arrival ? arrival->peer : "nobody";
}

TEST(ListenerTest, TakesAnyFreePort) {
  Result<Listener> listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_GT(listener->port(), 0);
  EXPECT_EQ(PeerSeenFrom(*listener, "127.0.0.1"), "127.0.0.1");
  EXPECT_FALSE(listener->Accept(0));
}

TEST(ListenerTest, ListensOnIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  Result<Listener> listener = Listener::Open("::1", 0);
  EXPECT_EQ(PeerSeenFrom(*listener, "::1"), "::1");
}

TEST(ListenerTest, ListensOnEveryAddressOfAName) {
  Result<Listener> listener = Listener::Open("localhost", 0);
  ASSERT_TRUE(listener) << listener.error().message;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  ASSERT_EQ(::getaddrinfo("localhost", nullptr, &hints, &found), 0);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (address->ai_family == AF_INET6 && !HasIpv6()) continue;
    const std::string text = address->ai_family == AF_INET6 ? "::1" : "127.0.0.1";
    EXPECT_EQ(PeerSeenFrom(*listener, text), text);
  }
  ::freeaddrinfo(found);
}

TEST(ListenerTest, KnowsWhetherOthersCanConnect) {
  EXPECT_TRUE(Listener::Open("127.0.0.1", 0)->is_loopback());
  EXPECT_TRUE(Listener::Open("127.9.9.9", 0)->is_loopback());
  EXPECT_FALSE(Listener::Open("0.0.0.0", 0)->is_loopback());
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_TRUE(Listener::Open("::1", 0)->is_loopback());
  EXPECT_FALSE(Listener::Open("::", 0)->is_loopback());
}

TEST(ListenerTest, NamesWhatIsInTheWay) {
  const Result<Listener> first = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(first);
  const Result<Listener> second = Listener::Open("127.0.0.1", first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_EQ(second.error().message, "cannot listen on host '127.0.0.1', port " +
                                        std::to_string(first->port()) + ": Address already in use");
  const Result<Listener> foreign = Listener::Open("192.0.2.1", 0);
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("'192.0.2.1', port 0: Cannot assign"));
  const Result<Listener> unknown = Listener::Open("no such host", 0);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("'no such host'"));
  EXPECT_FALSE(Listener::Open("127.0.0.1", 65536));
  EXPECT_FALSE(Listener::Open("127.0.0.1", -1));
}

TEST(ListenerTest, APortIsFreeAgainAtOnce) {
  int port = 0;
  for (int i = 0; i < 3; ++i) {
    Result<Listener> listener = Listener::Open("127.0.0.1", port);
    ASSERT_TRUE(listener) << listener.error().message;
    port = listener->port();
    // Our side closes first, and keeps the connection's state for a while.
    ClientSocket client(port);
    listener->Accept(10'000);
    EXPECT_TRUE(client.HasEnded());
  }
}

TEST(ListenerTest, Wakes) {
  Result<Listener> listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(listener->is_awake());
  listener->Wake();
  EXPECT_FALSE(listener->Accept(-1));
  EXPECT_TRUE(listener->is_awake());
}

}  // namespace
}  // namespace fathom::http
