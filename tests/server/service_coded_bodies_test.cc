// Compressed bodies, by sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/http/client_socket.h"
#include "tests/http/compressed_body.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGzip = "Content-Encoding: gzip\r\n";
constexpr std::string_view kZstd = "Content-Encoding: zstd\r\n";

class ServiceCodedBodiesTest : public ServiceTest {
 protected:
  ServiceCodedBodiesTest() { options_.access.api_keys = {"key"}; }

  ClientResponse Send(const std::string& path, std::string_view body, std::string_view coding,
                      std::string_view key = "key") {
    if (server_ == nullptr) {
      server_ = *service().Listen({.port = 0, .limits = {.body_bytes = std::size_t{1} << 20}});
    }
    std::string fields = "Content-Type: application/json\r\n";
    fields.append("x-api-key: ").append(key).append("\r\n").append(coding);
    return ClientSocket(server_->port()).Ask(Post(path, body, fields));
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServiceCodedBodiesTest, AreReadByAllApis) {
  const std::string user = R"({"role": "user", "content": "Once upon a time"})";
  const std::string chat = R"({"messages": [)" + user + "]}";
  for (const auto& [path, body] : {std::pair<std::string, std::string>{"/v1/messages", chat},
                                   {"/v1/chat/completions", chat},
                                   {"/v1/responses", R"({"input": "Hi"})"},
                                   {"/v1/completions", R"({"prompt": "Hi"})"}}) {
    for (const ClientResponse& response :
         {Send(path, Gzip(body), kGzip), Send(path, Zstd(body), kZstd), Send(path, body, "")}) {
      EXPECT_EQ(response.status, 200) << path << response.body;
      EXPECT_THAT(response.body, HasSubstr("Hello.")) << path;
    }
  }
  const std::string plain = Send("/tokenize", chat, "").body;
  EXPECT_EQ(Send("/tokenize", Gzip(chat), kGzip).body, plain);
  EXPECT_EQ(Send("/tokenize", Zstd(chat), kZstd).body, plain);
}

// Under the limit of a decoded body, whoever sends it; without a key nothing is decoded.
TEST_F(ServiceCodedBodiesTest, BombsAreRefused) {
  const std::string text = R"({"prompt": ")" + std::string(64 << 20, 'x') + "\"}";
  for (const auto& [body, coding] : {std::pair(Gzip(text), kGzip), std::pair(Zstd(text), kZstd)}) {
    EXPECT_LT(body.size(), 100'000U);
    EXPECT_EQ(Send("/v1/completions", body, coding).status, 413);
    EXPECT_EQ(Send("/v1/completions", body, coding, "no").status, 401);
    EXPECT_EQ(Send("/v1/completions", body.substr(0, 10), coding).status, 400);
    EXPECT_EQ(Send("/v1/completions", body.substr(0, 10), coding, "no").status, 401);
    EXPECT_EQ(Send("/v1/completions", text.substr(0, 100), coding).status, 400);
  }
  const ClientResponse other = Send("/v1/completions", "{}", "Content-Encoding: gzip, zstd\r\n");
  EXPECT_EQ(other.status, 415);
  EXPECT_EQ(other.Field("Accept-Encoding"), "gzip, zstd");
  EXPECT_EQ(runner_.submitted(), 0);
}

}  // namespace
}  // namespace fathom::testing
