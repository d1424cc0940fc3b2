#include "tests/http/client_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <utility>

namespace fathom::testing {

std::string ClientResponse::Field(std::string_view name) const {
  const std::size_t begin = header.find(fmt::format("\r\n{}: ", name));
  if (begin == std::string::npos) return "";
  const std::size_t value = begin + 2 + name.size() + 2;
  return header.substr(value, header.find("\r\n", value) - value);
}

ClientSocket::ClientSocket(int port, const std::string& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  EXPECT_EQ(::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found), 0);
  if (found == nullptr) return;
  descriptor_ = Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd(), found->ai_addr, found->ai_addrlen), 0)
      << address << " " << port << ": " << std::strerror(errno);
  ::freeaddrinfo(found);
}

bool ClientSocket::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool ClientSocket::WaitForInput() const {
  pollfd entry = {.fd = fd(), .events = POLLIN};
  constexpr auto kTime = std::chrono::milliseconds(kPatience).count();
  const bool has_input = ::poll(&entry, 1, static_cast<int>(kTime)) == 1;
  EXPECT_TRUE(has_input) << "the server sends nothing and does not close";
  return has_input;
}

std::string ClientSocket::Read(std::size_t n) {
  if (!read_.empty()) return std::exchange(read_, "");
  std::string bytes(n, '\0');
  if (!WaitForInput()) return "";
  const ssize_t n_read = ::recv(fd(), bytes.data(), n, 0);
  bytes.resize(n_read > 0 ? static_cast<std::size_t>(n_read) : 0);
  return bytes;
}

std::string ClientSocket::ReadAll() {
  std::string all;
  for (std::string piece = Read(); !piece.empty(); piece = Read()) all += piece;
  return all;
}

std::string ClientSocket::ReadUntil(std::string_view text) {
  std::string all;
  while (all.find(text) == std::string::npos) {
    const std::string piece = Read();
    if (piece.empty()) break;
    all += piece;
  }
  EXPECT_NE(all.find(text), std::string::npos) << "expected " << text << " in " << all;
  return all;
}

ClientResponse ClientSocket::ReadResponse(bool is_head) {
  ClientResponse response;
  std::string bytes;
  // Up to the end of `text`, or "" if the connection ends before.
  const auto take_until = [&](std::string_view text) -> std::string {
    while (bytes.find(text) == std::string::npos) {
      const std::string piece = Read();
      if (piece.empty()) return "";
      bytes += piece;
    }
    const std::size_t end = bytes.find(text) + text.size();
    const std::string taken = bytes.substr(0, end);
    bytes.erase(0, end);
    return taken;
  };
  const auto take = [&](std::size_t n) {
    while (bytes.size() < n) {
      const std::string piece = Read();
      if (piece.empty()) return false;
      bytes += piece;
    }
    response.body += bytes.substr(0, n);
    bytes.erase(0, n);
    return true;
  };
  response.header = take_until("\r\n\r\n");
  if (response.header.size() < 12) return response;
  response.status = std::stoi(response.header.substr(9, 3));
  if (is_head || response.status < 200 || response.status == 204) {
    response.is_whole = true;
  } else if (response.Field("Transfer-Encoding") == "chunked") {
    for (;;) {
      const std::string line = take_until("\r\n");
      if (line.empty()) break;
      const std::size_t n = std::stoul(line, nullptr, 16);
      if (n > 0 && !take(n)) break;
      if (take_until("\r\n") != "\r\n") break;
      response.is_whole = n == 0;
      if (n == 0) break;
    }
  } else if (const std::string length = response.Field("Content-Length"); !length.empty()) {
    response.is_whole = take(std::stoul(length));
  } else {
    response.body = bytes + ReadAll();
    bytes.clear();
    response.is_whole = true;
  }
  read_ = bytes;
  return response;
}

ClientResponse ClientSocket::Ask(std::string_view request) {
  EXPECT_TRUE(Send(request));
  return ReadResponse();
}

bool ClientSocket::IsOpen() const {
  pollfd entry = {.fd = fd(), .events = POLLIN | POLLRDHUP};
  return ::poll(&entry, 1, 0) == 0;
}

void ClientSocket::EndSending() { EXPECT_EQ(::shutdown(fd(), SHUT_WR), 0); }

void ClientSocket::Reset() {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

std::string Get(std::string_view path, std::string_view fields) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n{}\r\n", path, fields);
}

std::string Post(std::string_view path, std::string_view body, std::string_view fields) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), fields, body);
}

}  // namespace fathom::testing
