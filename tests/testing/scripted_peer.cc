#include "tests/testing/scripted_peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace fathom::testing {
namespace {

// 0 where the field is missing.
std::size_t ContentLength(std::string_view header) {
  constexpr std::string_view kField = "\r\nContent-Length: ";
  const std::size_t found = header.find(kField);
  return found == header.npos ? 0
                              : std::strtoul(header.data() + found + kField.size(), nullptr, 10);
}

}  // namespace

std::optional<std::string> ScriptedConnection::ReadRequest() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  for (;;) {
    const std::size_t end = received_.find(kEnd);
    if (end != received_.npos) {
      const std::size_t size = end + kEnd.size() + ContentLength(received_.substr(0, end));
      if (received_.size() >= size) {
        std::string request = received_.substr(0, size);
        received_.erase(0, size);
        return request;
      }
    }
    std::array<char, 65536> bytes;
    const ssize_t n = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (n <= 0) return std::nullopt;
    received_.append(bytes.data(), static_cast<std::size_t>(n));
  }
}

bool ScriptedConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void ScriptedConnection::WaitForClose() {
  std::array<char, 4096> bytes;
  while (::recv(descriptor_, bytes.data(), bytes.size(), 0) > 0) {
  }
}

std::string ReplyText(int status, std::string_view body, std::string_view fields) {
  return fmt::format("HTTP/1.1 {} Reason\r\n{}Content-Length: {}\r\n\r\n{}", status, fields,
                     body.size(), body);
}

std::string StreamHeader() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
         "chunked\r\n\r\n";
}

std::string ChunkText(std::string_view piece) {
  return fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
}

std::string StreamEnd() { return "0\r\n\r\n"; }

ScriptedPeer::ScriptedPeer(Script script) : script_(std::move(script)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  Check(::bind(listener_, any, size) == 0 && ::listen(listener_, 128) == 0 &&
            ::getsockname(listener_, any, &size) == 0,
        "cannot listen on the loopback address");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

ScriptedPeer::~ScriptedPeer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const int descriptor : open_) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
  }
  ::shutdown(listener_, SHUT_RDWR);  // accept returns
  acceptor_.join();
  served_.clear();  // joins
  ::close(listener_);
}

int ScriptedPeer::n_connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(served_.size());
}

int ScriptedPeer::n_open() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(open_.size());
}

void ScriptedPeer::Accept() {
  for (;;) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (descriptor < 0 || closing_) {
      if (descriptor >= 0) ::close(descriptor);
      return;
    }
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    open_.insert(descriptor);
    served_.emplace_back([this, descriptor] { Serve(descriptor); });
  }
}

void ScriptedPeer::Serve(int descriptor) {
  ScriptedConnection connection(descriptor);
  script_(connection);
  const std::lock_guard lock(mutex_);  // before the number can be another connection's
  open_.erase(descriptor);
  ::close(descriptor);
}

}  // namespace fathom::testing
