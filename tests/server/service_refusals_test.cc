// Requests that the transport refuses, by sockets: the client reads the error of its API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/http/client_socket.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPageOf = "Origin: https://page.example\r\n";

class ServiceRefusalsTest : public ServiceTest {
 protected:
  ServiceRefusalsTest() {
    options_.access.cors_origins = {"https://page.example"};
    options_.access.allowed_hosts = {"test"};  // of Post
  }

  ClientResponse Send(std::string_view request) {
    if (server_ == nullptr) {
      const HttpLimits limits = {.header_bytes = 4096, .body_bytes = 1000, .all_body_bytes = 500};
      server_ = *service().Listen({.port = 0, .limits = limits});
    }
    ClientSocket client(server_->port());
    client.Send(request);
    client.EndSending();
    return client.ReadResponse();
  }

  static std::string Head(std::string_view path, std::string_view fields) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
           "\r\n";
  }

  // Each is refused by another part of the transport.
  struct Refused {
    std::string request;
    int status;
    std::string_view message;
  };
  static std::vector<Refused> AllRefused(std::string_view path, const std::string& fields) {
    return {
        {Head(path, fields + "Content-Length: 1001\r\n"), 413, "more than 1000 bytes"},
        {Head(path, fields + "Content-Length: 9\r\n") + "{", 400, "ends too early"},
        {Head(path, fields + "Content-Encoding: gzip\r\nContent-Length: 2\r\n") + "{}", 400,
         "gzip"},
        {Head(path, fields + "Content-Length: x\r\n"), 400, "bad Content-Length"},
        {Head(path, fields + "Transfer-Encoding: br\r\n"), 501, "chunked"},
        {Head(path, fields + "x: " + std::string(5000, 'x') + "\r\n"), 431, "more than 4096 bytes"},
        {Post(path, std::string(600, ' '), fields), 503, "Too many large requests"},
    };
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServiceRefusalsTest, PathsOfOllamaGetATextAlone) {
  for (const char* path : {"/api/chat", "/api/generate", "/api/show"}) {
    for (const Refused& refused : AllRefused(path, "")) {
      const ClientResponse response = Send(refused.request);
      EXPECT_EQ(response.status, refused.status) << refused.request << response.body;
      const Json body = Json::parse(response.body);
      EXPECT_EQ(body.size(), 1u);
      EXPECT_THAT(body["error"].get<std::string>(), HasSubstr(refused.message));
    }
  }
}

TEST_F(ServiceRefusalsTest, ClientsOfMessagesGetATypeAndAnId) {
  for (const auto& [path, fields] :
       {std::pair("/v1/messages", ""), std::pair("/anthropic/v1/messages/count_tokens", ""),
        std::pair("/tokenize", "anthropic-version: 2023-06-01\r\n")}) {
    for (const Refused& refused : AllRefused(path, fields)) {
      const ClientResponse response = Send(refused.request);
      const int status = refused.status == 503 ? 529 : refused.status;
      EXPECT_EQ(response.status, status) << refused.request << response.body;
      const Json body = Json::parse(response.body);
      EXPECT_EQ(body["type"], "error");
      EXPECT_EQ(body["error"]["type"], status == 413   ? "request_too_large"
                                       : status == 529 ? "overloaded_error"
                                       : status == 501 ? "api_error"
                                                       : "invalid_request_error");
      EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(refused.message));
      EXPECT_EQ(body["request_id"], response.Field("request-id"));
      EXPECT_EQ(response.Field("X-Request-Id"), response.Field("request-id"));
      EXPECT_EQ(response.Field("Retry-After"), status == 529 ? "1" : "");
    }
  }
}

TEST_F(ServiceRefusalsTest, AllOtherClientsGetTheErrorOfOpenAi) {
  const std::string fields = "X-Request-Id: mine\r\n" + std::string(kPageOf);
  for (const char* path :
       {"/v1/chat/completions", "/v1/responses", "/v1/completions", "/tokenize"}) {
    for (const Refused& refused : AllRefused(path, fields)) {
      const ClientResponse response = Send(refused.request);
      EXPECT_EQ(response.status, refused.status) << refused.request << response.body;
      const Json error = Json::parse(response.body)["error"];
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(refused.message));
      EXPECT_EQ(error["type"], refused.status >= 500 ? "server_error" : "invalid_request_error");
      EXPECT_EQ(error["code"], "transport");
      EXPECT_EQ(response.Field("X-Request-Id"), "mine");
      EXPECT_EQ(response.Field("Access-Control-Allow-Origin"), "https://page.example");
      EXPECT_EQ(response.Field("Retry-After"), refused.status == 503 ? "1" : "");
    }
  }
}

// No path is known.
TEST_F(ServiceRefusalsTest, WhatIsNoRequestGetsTheErrorOfOpenAi) {
  for (const char* text : {"nonsense\r\n\r\n", "GET /api/chat\r\n\r\n", "GET /api/ch"}) {
    const ClientResponse response = Send(text);
    EXPECT_EQ(response.status, 400) << text;
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "transport") << text;
  }
}

}  // namespace
}  // namespace fathom::testing
