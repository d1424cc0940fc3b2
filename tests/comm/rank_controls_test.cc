// Rank 0 waits for the other ranks while strangers connect to its port.
#include "comm/rank_controls.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/ranks.h"

namespace fathom::comm {
namespace {

sockaddr_in Loopback(in_port_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// The address at which this process listens over TCP; port 0: at none.
sockaddr_in ListeningAddress() {
  constexpr int kMostDescriptors = 1024;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    sockaddr_in address = {};
    socklen_t address_size = sizeof(address);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) == 0 &&
        address.sin_family == AF_INET) {
      return address;
    }
  }
  return {};
}

// Calls a function before each operation, where rank 0 already listens and the others do not know.
class Watched : public Communicator {
 public:
  Watched(Communicator& inner, std::function<void()> before)
      : inner_(inner), before_(std::move(before)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    before_();
    return inner_.Start(outgoing, incoming);
  }
  Result<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return inner_.Split(color, key);
  }
  Traffic traffic() const override { return inner_.traffic(); }

 private:
  Communicator& inner_;
  const std::function<void()> before_;
};

// Connects with that greeting, and stays.
Descriptor Stranger(const sockaddr_in& address, const std::string& greeting) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  EXPECT_EQ(::send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  return socket;
}

TEST(RankControlsTest, StrangersNeitherDelayNorTakePart) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> n_connected = 0;
  std::vector<Descriptor> strangers;
  testing::RunRanks(3, [&](Communicator& plain) {
    Watched all(plain, [&] {
      const sockaddr_in address = ListeningAddress();
      if (plain.rank() != 0 || address.sin_port == 0 || !strangers.empty()) return;
      EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK) << "the ranks run on one machine";
      for (int i = 0; i < 60; ++i) {
        strangers.push_back(Stranger(Loopback(address.sin_port),
                                     std::string(static_cast<std::size_t>(i % 3) * 10, '\1')));
      }
    });
    const Result<std::vector<Descriptor>> controls = ConnectControls(all);
    ASSERT_TRUE(controls) << controls.error().message;
    // Each hears its own number from rank 0.
    for (std::size_t i = 0; i < controls->size(); ++i) {
      char number = static_cast<char>(i + 1);
      const int fd = (*controls)[i].get();
      if (plain.rank() == 0) {
        EXPECT_EQ(::send(fd, &number, 1, MSG_NOSIGNAL), 1);
      } else {
        pollfd input = {fd, POLLIN, 0};
        EXPECT_EQ(::poll(&input, 1, 10'000), 1);
        EXPECT_EQ(::recv(fd, &number, 1, 0), 1);
        EXPECT_EQ(number, plain.rank());
      }
    }
    ++n_connected;
    ASSERT_TRUE(plain.Barrier());
  });
  EXPECT_EQ(n_connected, 3);
  EXPECT_EQ(strangers.size(), 60U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace fathom::comm
