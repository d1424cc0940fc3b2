// HttpServer: HTTP/1.1 over TCP, a thread per connection, with limits on everything that a client
// can make the server keep. The server knows nothing of models.
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

namespace fathom {

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // of the target, without empty segments: "/v1/models" of "//v1/models/"
  std::string query;   // behind the '?'; may be empty
  HttpFields fields;   // in the order they came
  // Decoded, if Content-Encoding names one of kContentCodings (http/content_decoder.h).
  std::string body;
  std::string peer;  // the client's address

  // Returns the first field of that name, ignoring case; "" without one.
  std::string_view Field(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpFields fields{};  // besides Content-Type, Content-Length, Connection and Server
  std::string body{};
};

// Answers one request, on the thread of its connection, which calls everything but DropSlowClient.
// Exactly one of Send and StartStream is called, once. A client that has left is only noticed when
// asked for.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Send(HttpResponse response) = 0;
  // Starts a response whose body comes in pieces (chunked); `head.body` is the first piece. Both
  // return false if the client has left, or has not taken a byte for HttpLimits::write_time.
  virtual bool StartStream(HttpResponse head) = 0;
  virtual bool Write(std::string_view piece) = 0;
  // Whether the client has closed the connection, or its half of it. One system call.
  virtual bool ClientIsGone() = 0;
  // Any thread, as long as the exchange lives. Lets no write wait for the client from now on: a
  // write that waits fails at once, and so does a later one that would have to wait; the
  // connection then ends. Writes that the system takes at once still reach the client.
  virtual void DropSlowClient() = 0;
};

// An exception is caught and becomes 500 if nothing has been sent.
using HttpHandler = std::function<void(const HttpRequest& request, HttpExchange& exchange)>;

// Answers a request by its head alone, whose `body` is empty, and returns true; false: the body is
// needed. An exception is caught as that of a handler.
using HttpHeadHandler = std::function<bool(const HttpRequest& head, HttpExchange& exchange)>;

// A request over a limit is answered with the given status, and the connection is closed.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{64} << 10;  // 431
  std::size_t body_bytes = std::size_t{64} << 20;    // decoded: 413
  // All connections at once, with the memory of decoders: 503.
  std::size_t all_body_bytes = std::size_t{512} << 20;
  std::size_t fields = 256;  // of a header: 431
  // Beyond this, the connection that has waited longest for its next request, for more bytes of
  // one, or for its client to read a whole response, is closed. As many requests are handled at
  // once; more get 503.
  std::size_t connections = 4096;
  // While all of these are at work, as many more may be open, so that vital requests
  // (HttpServerOptions::is_vital) arrive; and as many vital requests more are handled.
  std::size_t reserve = 16;
  // From the first byte to the end of the header: 408.
  std::chrono::milliseconds header_time = std::chrono::seconds(15);
  // Until the first byte of a request.
  std::chrono::milliseconds idle_time = std::chrono::seconds(75);
  // For a whole body: 408.
  std::chrono::milliseconds body_time = std::chrono::seconds(120);
  // In which a body must grow by an eighth of what has come, and by a byte: 408. Ends a client that
  // sends a lot and then waits. A client of constant speed is safe as long as this is more than an
  // eighth of body_time, however slow it is: each time it sends that share of what it has sent.
  std::chrono::milliseconds body_step_time = std::chrono::seconds(20);
  // For one write to make any progress.
  std::chrono::milliseconds write_time = std::chrono::seconds(60);
};

struct HttpCounts {
  std::size_t connections = 0;  // open now
  std::size_t waiting = 0;      // for a request
  std::size_t handling = 0;     // inside the handler
  std::size_t body_bytes = 0;   // bytes held now of bodies that are read or handled
  std::uint64_t accepted = 0;   // since the start
  std::uint64_t refused = 0;    // answered by a limit, or closed to make room
};

// The reason why a request is not handled; the connection cannot be used for another request.
struct HttpRefusal {
  int status = 400;
  std::string message{};
};

// Makes the response to a request that never reaches the handler (400, 408, 413, 417, 431, 501,
// 503, 505) or whose handler fails (500). `request` has what was read of it: nothing, not even a
// path, if that was refused. Any thread; does not throw.
using HttpRefusalHandler =
    std::function<HttpResponse(const HttpRequest& request, const HttpRefusal& refusal)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a name or an address, of either family
  int port = 8000;                 // 0: any free port
  HttpLimits limits{};
  HttpRefusalHandler answer_refusal{};  // empty: plain text
  // Called for each request with a body, before a byte of it is read or asked for, on the thread of
  // the connection. Empty: all bodies are read.
  HttpHeadHandler answer_head{};
  // Whether the request may use the reserve, by its head. Any thread. Empty: none may.
  std::function<bool(const HttpRequest& head)> is_vital{};
};

class HttpServer {
 public:
  // Starts to accept connections. Errors: the address is unknown, in use or not of this machine.
  static Result<std::unique_ptr<HttpServer>> Listen(HttpServerOptions options, HttpHandler handler);
  // Stops the server as Stop does.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  // Whether no other machine can connect.
  virtual bool is_loopback() const = 0;
  virtual HttpCounts counts() const = 0;

  // Any thread. Accepts no more connections and closes those that wait for a request; the others
  // are closed after the response they are at.
  virtual void Drain() = 0;
  // Whether all connections have ended within that time. Call after Drain.
  virtual bool WaitFor(std::chrono::milliseconds time) = 0;
  // Closes all connections and waits for their handlers, for whom the client is gone; hence not
  // to be called by one of them.
  virtual void Stop() = 0;
};

}  // namespace fathom
