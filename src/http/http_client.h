// HttpClient: HTTP/1.1 from the other side: one connection, one request at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/client_socket.h"
#include "http/http.h"
#include "http/http_url.h"

namespace fathom {

struct HttpClientLimits {
  std::chrono::milliseconds connect_time{10'000};   // without looking up the name
  std::chrono::milliseconds request_time{600'000};  // from connecting to the last byte
  std::size_t header_bytes = std::size_t{64} << 10;
  std::size_t body_bytes = std::size_t{64} << 20;  // of a body that is kept
};

// What is asked. Host, Connection and Content-Length are added.
struct HttpCall {
  std::string method = "GET";
  std::string path;  // with the query; goes behind the path of the URL
  HttpFields fields{};
  std::string body{};
};

struct HttpReply {
  int status = 0;
  std::string content_type;
  HttpFields fields{};
  std::string body{};  // empty where the pieces went elsewhere
};

// A piece of a body as it arrives, cut anywhere; false: no more is wanted.
using HttpPieceSink = std::function<bool(std::string_view piece)>;

// Keeps its connection for the next request where the server does. One thread, but for Cancel.
class HttpClient {
 public:
  explicit HttpClient(HttpUrl url, HttpClientLimits limits = {});

  // Any status is a reply. With a `sink` the body of a reply of 2xx goes there piece by piece;
  // every other body is kept. A connection the server has closed since is opened anew; nothing is
  // ever sent twice. Errors name host, port, method and path: kInvalidArgument (a line break in a
  // field), kIo (no connection, time is up, closed in the middle), kInvalidData (not HTTP, or over
  // a limit), kUnavailable (cancelled, or the sink wanted no more). They close the connection.
  Result<HttpReply> Send(const HttpCall& call, const HttpPieceSink& sink = {});

  const HttpUrl& url() const { return url_; }

  // Any thread, at any time: the request that runs and all later ones fail.
  void Cancel() { socket_.Cancel(); }

 private:
  Result<HttpReply> Exchange(const HttpCall& call, const HttpPieceSink& sink);

  const HttpUrl url_;
  const HttpClientLimits limits_;
  ClientSocket socket_;
};

}  // namespace fathom
