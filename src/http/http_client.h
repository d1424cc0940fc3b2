// HttpClient: sends requests to one server, one request at a time, over libcurl.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/http.h"

namespace fathom::http {

struct HttpClientLimits {
  std::chrono::milliseconds connect_time{10'000};   // includes name lookup and TLS handshake
  std::chrono::milliseconds request_time{600'000};  // from connecting to the last byte
  std::size_t header_bytes = std::size_t{64} << 10;
  std::size_t body_bytes = std::size_t{64} << 20;  // for a body that is kept
};

// The client adds Host and Content-Length.
struct HttpCall {
  std::string method = "GET";
  std::string path;  // with the query; is appended to the server's URL
  HttpFields fields{};
  std::string body{};
};

struct HttpReply {
  int status = 0;
  std::string content_type;
  HttpFields fields{};
  std::string body{};  // empty if a sink received the pieces
};

// Receives a piece of a body as it arrives, cut anywhere. Returns false to end the request.
using HttpPieceSink = std::function<bool(std::string_view piece)>;

// Checks a server's URL, http[s]://HOST[:PORT][/PREFIX], and removes trailing slashes. Errors:
// kInvalidArgument.
Result<std::string> ParseServerUrl(std::string_view text);

// Keeps the connection for the next request if the server does. Verifies the certificates of https
// servers with the system's trusted certificates. Connects directly: the environment's proxies are
// ignored. One thread, except for Cancel.
class HttpClient {
 public:
  // `url`: from ParseServerUrl.
  explicit HttpClient(std::string url, HttpClientLimits limits = {});

  // Any status is a reply; redirects are not followed. With a `sink` the body of a 2xx reply goes
  // to the sink piece by piece; every other body is kept. Opens a new connection if the
  // server has closed the kept one; nothing is sent twice. Errors name URL, method and path:
  // kInvalidArgument (a line break in a field), kIo (no connection, untrusted certificate, timeout,
  // connection closed early), kInvalidData (not HTTP, or over a limit), kUnavailable (cancelled, or
  // ended by the sink). An error closes the connection.
  Result<HttpReply> Send(const HttpCall& call, const HttpPieceSink& sink = {});

  const std::string& url() const { return url_; }

  // Fails the running request and all later ones. Any thread, at any time.
  void Cancel();

 private:
  Result<HttpReply> Exchange(const HttpCall& call, const HttpPieceSink& sink);
  // Runs the transfer of `easy`, a CURL, and returns its CURLcode.
  Result<int> Perform(void* easy);

  const std::string url_;
  const HttpClientLimits limits_;
  const std::unique_ptr<void, void (*)(void*)> multi_;  // a CURLM; owns the connection
  std::atomic<bool> cancelled_ = false;
};

}  // namespace fathom::http
