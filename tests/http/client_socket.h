// ClientSocket: the other side of a connection, byte by byte, for tests of the HTTP server.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace fathom::testing {

struct ClientResponse {
  int status = 0;
  std::string header;  // all of it, from the status line to the empty line
  std::string body;    // without the sizes of chunks
  bool is_whole = false;

  // "" if there is none.
  std::string Field(std::string_view name) const;
};

// Waits at most kPatience for anything, and then fails the test.
class ClientSocket {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  explicit ClientSocket(int port, const std::string& address = "127.0.0.1");

  // False: the server has closed the connection.
  bool Send(std::string_view bytes);
  // Returns received bytes, at most n; "" at the end of the connection.
  std::string Read(std::size_t n = 65536);
  // Until the end of the connection.
  std::string ReadAll();
  // Until `text` has come; everything up to there and behind it.
  std::string ReadUntil(std::string_view text);
  // The next response; `is_head`: without a body.
  ClientResponse ReadResponse(bool is_head = false);
  ClientResponse Ask(std::string_view request);

  // Whether the connection has ended, by close or reset, with nothing before that.
  bool HasEnded() { return ReadAll().empty(); }
  // HasEnded without waiting.
  bool IsOpen() const;

  void EndSending();
  void Close() { descriptor_.Close(); }
  void Reset();
  int fd() const { return descriptor_.get(); }

 private:
  bool WaitForInput() const;

  Descriptor descriptor_;
  std::string read_;  // and not used yet
};

std::string Get(std::string_view path, std::string_view fields = "");
std::string Post(std::string_view path, std::string_view body, std::string_view fields = "");

}  // namespace fathom::testing
