// ServeConnection: serves one connection, from its first byte to its close: reads, handles and
// answers its requests in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/connection_table.h"
#include "http/http.h"
#include "http/http_request_parser.h"
#include "http/socket.h"

namespace fathom::http {

// State that all connections of a server share. Any thread.
struct HttpConnections {
  HttpConnections(HttpServerOptions with_options, HttpHandler with_handler);

  const HttpServerOptions options;
  const HttpHandler handler;
  ConnectionTable table;
  ByteBudget bodies;
  std::atomic<std::size_t> n_handling = 0;
  std::atomic<std::uint64_t> n_accepted = 0;
  std::atomic<std::uint64_t> n_refused = 0;
};

inline constexpr std::string_view kTooManyConnections = "Too many connections. Please try again.";
inline constexpr std::string_view kClientIsGone =
    "Expected the connection to stay open until the answer has come.";

// Returns a refusal as a response. `answer`: HttpServerOptions::answer_refusal.
HttpResponse RefusalResponse(const HttpRefusalHandler& answer, const HttpRequest& request,
                             const HttpRefusal& refusal);

// Runs until the connection has ended. Removes `id` from the table. Does not throw.
void ServeConnection(HttpConnections& shared, ConnectionTable::Id id, Socket socket,
                     const std::string& peer) noexcept;

}  // namespace fathom::http
