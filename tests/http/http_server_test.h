// HttpServerTest: a server with small limits on a free port, for one test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "http/http.h"
#include "tests/http/client_socket.h"

namespace fathom::testing {

// Long enough for a starved machine; nothing waits so long where all is well.
inline constexpr std::chrono::seconds kLong(20);

// Whether `holds` becomes true in time.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// "METHOD path query body" of the request.
inline void Echo(const HttpRequest& request, HttpExchange& exchange) {
  exchange.Send(
      {.content_type = "text/plain",
       .body = request.method + " " + request.path + " " + request.query + " " + request.body});
}

class HttpServerTest : public ::testing::Test {
 protected:
  void Listen(HttpHandler handler = Echo, HttpLimits limits = {}) {
    options_.port = 0;
    options_.limits = limits;
    auto server = HttpServer::Listen(options_, std::move(handler));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  ClientSocket Connect() { return ClientSocket(server_->port()); }
  ClientResponse Ask(std::string_view request) { return Connect().Ask(request); }
  bool BecomesEmpty() { return server_->WaitFor(kLong); }

  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace fathom::testing
