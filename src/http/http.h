// HttpServer: HTTP/1.1 over TCP, a thread per connection, with limits on all memory that a client
// can make the server use. The server knows nothing of models.
//
// A reverse proxy in front of the server adds TLS.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fathom::http {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without empty segments: "/v1/models" for "//v1/models/"
  std::string query;   // after the '?'; may be empty
  HttpFields fields;   // in the order of arrival
  // Decoded, if Content-Encoding names one of kContentCodings (http/content_decoder.h).
  std::string body;
  std::string peer;  // the client's address

  // Returns the first field with that name, ignoring case; "" without one.
  std::string_view Field(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpFields fields{};  // in addition to Content-Type, Content-Length, Connection and Server
  std::string body{};
};

// Answers one request, on the thread of its connection, which must make all calls except
// DropSlowClient. Exactly one of Send and StartStream must be called, once. A client that has left
// is noticed only by ClientIsGone and by writes.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Send(HttpResponse response) = 0;
  // Starts a response whose body comes in pieces (chunked); `head.body` is the first piece. Both
  // return false if the client has left, or has not received a byte for HttpLimits::write_time.
  virtual bool StartStream(HttpResponse head) = 0;
  virtual bool Write(std::string_view piece) = 0;
  // Returns whether the client has closed the connection, or its half of it. Costs one system call.
  virtual bool ClientIsGone() = 0;
  // Any thread, during the lifetime of the exchange. From now on, no write waits for the client: a
  // waiting write fails immediately, and so does a later one that would have to wait; the
  // connection then ends. Writes that need no wait still reach the client.
  virtual void DropSlowClient() = 0;
};

// Handles a request. An exception is caught and becomes 500 if nothing has been sent.
using HttpHandler = std::function<void(const HttpRequest& request, HttpExchange& exchange)>;

// Answers a request by its head alone, whose `body` is empty, and returns true; false: the body is
// needed. An exception is handled as in HttpHandler.
using HttpHeadHandler = std::function<bool(const HttpRequest& head, HttpExchange& exchange)>;

// A request over a limit is answered with the given status, and the connection is closed.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{64} << 10;  // 431
  std::size_t body_bytes = std::size_t{64} << 20;    // decoded: 413
  // The total of all connections, with the memory of decoders: 503.
  std::size_t all_body_bytes = std::size_t{512} << 20;
  std::size_t fields = 256;  // the most fields in a header: 431
  // Above this number, the connection that has waited longest is closed: for its next request, for
  // more bytes of a request, or for its client to read a whole response. This many requests are
  // handled concurrently; more get 503.
  std::size_t connections = 4096;
  // While all connections are at work, this many more may be open, so that vital requests
  // (HttpServerOptions::is_vital) arrive, and this many more vital requests are handled.
  std::size_t reserve = 16;
  // Time from the first byte to the end of the header: 408.
  std::chrono::milliseconds header_time = std::chrono::seconds(15);
  // Time until the first byte of a request.
  std::chrono::milliseconds idle_time = std::chrono::seconds(75);
  // Time for a whole body: 408.
  std::chrono::milliseconds body_time = std::chrono::seconds(120);
  // Time in which a body must grow by an eighth of the received bytes, and by a byte: 408. Ends a
  // client that sends much and then waits. A client with constant speed is safe if this time
  // exceeds an eighth of body_time, however slow it is: in each period it sends that share of its
  // earlier bytes.
  std::chrono::milliseconds body_step_time = std::chrono::seconds(20);
  // Time in which one write must make some progress.
  std::chrono::milliseconds write_time = std::chrono::seconds(60);
};

struct HttpCounts {
  std::size_t connections = 0;  // currently open
  std::size_t waiting = 0;      // connections that wait for a request
  std::size_t handling = 0;     // connections inside the handler
  std::size_t body_bytes = 0;   // bytes in memory for bodies that are being read or handled
  std::uint64_t accepted = 0;   // since the start
  std::uint64_t refused = 0;    // answered with an error by a limit, or closed to make room
};

// The reason why a request is not handled; the connection cannot be used for another request.
struct HttpRefusal {
  int status = 400;
  std::string message{};
};

// Makes the response to a request that never reaches the handler (400, 408, 413, 417, 431, 501,
// 503, 505) or whose handler fails (500). `request` contains the parts that were read, without
// refused parts: possibly nothing, not even a path. Any thread; does not throw.
using HttpRefusalHandler =
    std::function<HttpResponse(const HttpRequest& request, const HttpRefusal& refusal)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a name or an address, of either family
  int port = 8000;                 // 0: any free port
  HttpLimits limits{};
  HttpRefusalHandler answer_refusal{};  // empty: plain text
  // Called for each request with a body, before a byte of it is read or requested, on the thread of
  // the connection. Empty: all bodies are read.
  HttpHeadHandler answer_head{};
  // Returns whether the request may use the reserve, by its head. Any thread. Empty: none may.
  std::function<bool(const HttpRequest& head)> is_vital{};
};

class HttpServer {
 public:
  // Starts to accept connections. Errors: the address is unknown, in use or does not belong to this
  // machine.
  static Result<std::unique_ptr<HttpServer>> Listen(HttpServerOptions options, HttpHandler handler);
  // Stops the server, like Stop.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  // Returns whether no other machine can connect.
  virtual bool is_loopback() const = 0;
  virtual HttpCounts counts() const = 0;

  // Any thread. Accepts no more connections and closes connections that wait for a request; all
  // others are closed after their current response.
  virtual void Drain() = 0;
  // Returns whether all connections have ended within that time. Call after Drain.
  virtual bool WaitFor(std::chrono::milliseconds time) = 0;
  // Closes all connections and waits for their handlers, for which the client is gone. So a handler
  // must not call it.
  virtual void Stop() = 0;
};

}  // namespace fathom::http
