// Bodies that clients compress: what the handler gets, and what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "http/http_request_parser.h"
#include "tests/http/compressed_body.h"
#include "tests/http/http_server_test.h"

namespace fathom::http {
namespace {

using State = HttpRequestParser::State;
using testing::Echo;
using testing::Gzip;
using testing::Post;
using testing::Zstd;

constexpr std::string_view kGzip = "Content-Encoding: gzip\r\n";
constexpr std::string_view kZstd = "Content-Encoding: zstd\r\n";
constexpr std::size_t kDecoder = std::size_t{2} << 20;  // more than a decoder needs here

class HttpCodedBodyTest : public testing::HttpServerTest {
 protected:
  struct Outcome {
    State state = State::kHeader;
    int status = 0;
    std::string text;        // of the body or the refusal
    std::size_t n_read = 0;  // bytes of the request
    std::size_t n_held = 0;  // bytes of the budget
  };

  // Feeds a request as a connection does, 16 KiB at a time.
  Outcome Read(const std::string& request, std::size_t step = 1 << 14) {
    Outcome outcome;
    {
      HttpRequestParser parser(limits_, budget_);
      while (outcome.n_read < request.size() &&
             (parser.state() == State::kHeader || parser.state() == State::kBody)) {
        outcome.n_read += parser.Feed(std::string_view(request).substr(outcome.n_read, step));
      }
      outcome.state = parser.state();
      outcome.n_held = budget_.taken();
      const bool is_refused = outcome.state == State::kRefused;
      outcome.status = is_refused ? parser.refusal().status : 200;
      outcome.text = is_refused ? parser.refusal().message : parser.request().body;
    }
    EXPECT_EQ(budget_.taken(), 0U) << "given back";
    return outcome;
  }

  HttpLimits limits_;
  ByteBudget budget_{64 << 20};
};

std::string Chunked(std::string_view body, std::string_view fields) {
  std::string request = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
  request.append(fields).append("\r\n");
  for (const char c : body) request.append("1\r\n").append(1, c).append("\r\n");
  return request + "0\r\n\r\n";
}

TEST_F(HttpCodedBodyTest, TheHandlerGetsTheDecodedBody) {
  const std::string text(100'000, 'x');
  const std::pair<std::string, std::string_view> bodies[] = {
      {Gzip(text), kGzip}, {Zstd(text), kZstd}, {Gzip(text), "Content-Encoding: x-gzip\r\n"}};
  for (const auto& [body, fields] : bodies) {
    for (const std::string& request : {Post("/", body, fields), Chunked(body, fields)}) {
      const Outcome read = Read(request);
      EXPECT_EQ(read.state, State::kComplete) << read.text;
      EXPECT_TRUE(read.text == text);
      EXPECT_EQ(read.n_read, request.size());
      EXPECT_EQ(read.n_held, text.size()) << "the decoder is freed";
    }
  }
  EXPECT_EQ(Read(Post("/", "", kGzip)).text, "") << "nothing to decode";
  EXPECT_EQ(Read(Post("/", "as it is", "Content-Encoding: br\r\n")).text, "as it is");
}

TEST_F(HttpCodedBodyTest, TheLimitHoldsForDecodedBytes) {
  limits_.body_bytes = 100'000;
  for (const std::size_t n_bytes : {100'000, 100'001}) {
    const std::string text(n_bytes, 'x');
    for (const std::string& request :
         {Post("/", Gzip(text), kGzip), Post("/", Zstd(text), kZstd)}) {
      const Outcome read = Read(request);
      EXPECT_EQ(read.status, n_bytes == limits_.body_bytes ? 200 : 413) << read.text;
      if (read.status == 413) {
        EXPECT_EQ(read.text, "The body has more than 100000 bytes.");
      }
    }
  }
}

// A body of 100 KB that would become 100 MB, and one that does not end.
TEST_F(HttpCodedBodyTest, BombsStopAtTheLimit) {
  limits_.body_bytes = 1 << 20;
  const std::string text(100 << 20, '\0');
  for (const auto& [body, fields] : {std::pair(Gzip(text), kGzip), std::pair(Zstd(text), kZstd)}) {
    const std::string bomb = Post("/", body + body, fields);
    const Outcome read = Read(bomb, 512);
    EXPECT_EQ(read.status, 413);
    EXPECT_LT(read.n_read, 5'000U) << "the rest is not read";
    EXPECT_LE(read.n_held, limits_.body_bytes + kDecoder);
  }
}

TEST_F(HttpCodedBodyTest, TheMemoryOfDecodersIsShared) {
  ByteBudget small(1 << 20);
  HttpRequestParser parser(limits_, small);
  const std::string request = Post("/", Zstd(std::string(1000, 'x'), 23), kZstd);
  std::size_t n_read = parser.Feed(request);
  EXPECT_EQ(small.taken(), 0U) << "nothing is decoded before the head is admitted";
  n_read += parser.Feed(std::string_view(request).substr(n_read));
  ASSERT_EQ(parser.state(), State::kRefused);
  EXPECT_EQ(parser.refusal().status, 503) << "a window of 8 MiB";
}

TEST_F(HttpCodedBodyTest, CutAndDamagedBodies) {
  const std::string text = "Once upon a time there was a little girl.";
  for (const auto& [body, fields] : {std::pair(Gzip(text), kGzip), std::pair(Zstd(text), kZstd)}) {
    for (std::size_t n_bytes = 1; n_bytes < body.size(); ++n_bytes) {
      const Outcome read = Read(Post("/", body.substr(0, n_bytes), fields));
      EXPECT_EQ(read.status, 400) << n_bytes;
      EXPECT_EQ(read.text, "Content-Encoding: the body ends too early.") << n_bytes;
    }
    std::string damaged = body;
    damaged[damaged.size() - 1] = static_cast<char>(~damaged[damaged.size() - 1]);
    EXPECT_EQ(Read(Post("/", damaged, fields)).status, 400);
    EXPECT_EQ(Read(Post("/", body + "more", fields)).status, 400);
    EXPECT_EQ(Read(Post("/", text, fields)).status, 400);
  }
}

TEST_F(HttpCodedBodyTest, NoByteIsDecodedForClientsWithoutAKey) {
  options_.answer_head = [](const HttpRequest& head, HttpExchange& exchange) {
    if (!head.Field("key").empty()) return false;
    exchange.Send({.status = 401, .body = "no key"});
    return true;
  };
  Listen(Echo);
  const std::string damaged = "no gzip";
  EXPECT_EQ(Ask(Post("/", damaged, kGzip)).status, 401);
  EXPECT_EQ(Ask(Post("/", damaged, std::string(kGzip) + "key: k\r\n")).status, 400);
  EXPECT_EQ(Ask(Post("/", Gzip("hello"), std::string(kGzip) + "key: k\r\n")).body, "POST /  hello");
}

}  // namespace
}  // namespace fathom::http
