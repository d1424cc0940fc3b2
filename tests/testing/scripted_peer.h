// ScriptedPeer: a TCP server that says exactly the bytes a test wants, when it wants.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace fathom::testing {

// One accepted connection, on its thread. Closed when the script returns.
class ScriptedConnection {
 public:
  explicit ScriptedConnection(int descriptor) : descriptor_(descriptor) {}

  // The next request, its header and Content-Length bytes of body; none: the client has closed.
  std::optional<std::string> ReadRequest();
  // Whatever is sent is on its way when this returns. False: the client has closed.
  bool Write(std::string_view bytes);
  // Until the client closes, or the server is destroyed.
  void WaitForClose();

 private:
  const int descriptor_;
  std::string received_;
};

// A reply of HTTP with Content-Length.
std::string ReplyText(int status, std::string_view body, std::string_view fields = "");
// The bytes as a chunked stream: its header; a chunk; its end.
std::string StreamHeader();
std::string ChunkText(std::string_view piece);
std::string StreamEnd();

// Runs `script` for each connection, each on a thread of its own; closes them all at the end.
class ScriptedPeer {
 public:
  using Script = std::function<void(ScriptedConnection& connection)>;

  explicit ScriptedPeer(Script script);
  ~ScriptedPeer();
  ScriptedPeer(const ScriptedPeer&) = delete;
  ScriptedPeer& operator=(const ScriptedPeer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int n_connections() const;  // accepted since the start
  int n_open() const;

 private:
  void Accept();
  void Serve(int descriptor);

  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::set<int> open_;                // guarded by mutex_
  std::vector<std::jthread> served_;  // guarded by mutex_
  bool closing_ = false;              // guarded by mutex_
  std::jthread acceptor_;
};

}  // namespace fathom::testing
