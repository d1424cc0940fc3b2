// The limits to the byte, and what Feed leaves alone.
#include "http/http_request_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/http/client_socket.h"

namespace fathom::http {
namespace {

using State = HttpRequestParser::State;

class HttpRequestParserTest : public ::testing::Test {
 protected:
  HttpLimits limits_;
  ByteBudget budget_{1000};
};

TEST_F(HttpRequestParserTest, StopsBehindTheHeaderAndBehindTheBody) {
  const std::string header = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n";
  HttpRequestParser parser(limits_, budget_);
  EXPECT_EQ(parser.Feed(header + "bodyGET"), header.size());
  EXPECT_EQ(parser.state(), State::kBody);
  EXPECT_TRUE(parser.keeps_alive());
  EXPECT_FALSE(parser.is_http_1_0());
  EXPECT_FALSE(parser.expects_continue());
  EXPECT_EQ(parser.Feed("bo"), 2U);
  EXPECT_EQ(budget_.taken(), 2U);
  EXPECT_EQ(parser.Feed("dyGET"), 2U);
  EXPECT_EQ(parser.state(), State::kComplete);
  EXPECT_EQ(parser.request().body, "body");
}

TEST_F(HttpRequestParserTest, ARequestWithoutABodyIsCompleteAtOnce) {
  HttpRequestParser parser(limits_, budget_);
  const std::string request = testing::Get("/");
  EXPECT_EQ(parser.Feed(request + request), request.size());
  EXPECT_EQ(parser.state(), State::kComplete);
}

// Before anybody looks at the path.
TEST_F(HttpRequestParserTest, PathsHaveNoEmptySegments) {
  const std::pair<const char*, const char*> paths[] = {
      {"/v1/models", "/v1/models"},
      {"/v1/models/", "/v1/models"},
      {"//v1/models", "/v1/models"},
      {"///v1//models//", "/v1/models"},
      {"/", "/"},
      {"//", "/"},
      {"/v1/models/a%2F%2Fb", "/v1/models/a%2F%2Fb"},
      {"/./v1/../x/", "/./v1/../x"},
      {"http://host//v1/models/", "/v1/models"},
      {"HTTPS://host", "/"},
      {"*", "*"},
  };
  for (const auto& [sent, read] : paths) {
    HttpRequestParser parser(limits_, budget_);
    parser.Feed(testing::Get(std::string(sent) + "?a=//b/"));
    ASSERT_EQ(parser.state(), State::kComplete) << sent;
    EXPECT_EQ(parser.request().path, read) << sent;
    EXPECT_EQ(parser.request().query, "a=//b/") << sent;
  }
}

TEST_F(HttpRequestParserTest, CountsTheHeaderToTheByte) {
  const std::string request = testing::Get("/", "A: b\r\nC: d\r\n");
  for (const std::size_t step : {request.size(), std::size_t{1}}) {
    for (const std::size_t missing : {0U, 1U}) {
      limits_.header_bytes = request.size() - missing;
      HttpRequestParser parser(limits_, budget_);
      std::size_t begin = 0;
      for (std::size_t end = step; end <= request.size(); end += step) {
        begin += parser.Feed(std::string_view(request).substr(begin, end - begin));
        if (parser.state() != State::kHeader) break;
      }
      ASSERT_EQ(parser.state(), missing == 0 ? State::kComplete : State::kRefused);
      if (missing != 0) {
        EXPECT_EQ(parser.refusal().status, 431);
      }
    }
  }
}

TEST_F(HttpRequestParserTest, GivesTheBytesOfItsBodyBack) {
  {
    HttpRequestParser first(limits_, budget_);
    const std::string request = testing::Post("/", std::string(600, 'x'));
    first.Feed(std::string_view(request).substr(first.Feed(request)));
    EXPECT_EQ(first.state(), State::kComplete);
    EXPECT_EQ(budget_.taken(), 600U);
    HttpRequestParser second(limits_, budget_);
    second.Feed(std::string_view(request).substr(second.Feed(request)));
    EXPECT_EQ(second.state(), State::kRefused);
    EXPECT_EQ(second.refusal().status, 503);
    EXPECT_EQ(budget_.taken(), 600U);
  }
  EXPECT_EQ(budget_.taken(), 0U);
}

TEST_F(HttpRequestParserTest, CanBeRefusedFromOutside) {
  HttpRequestParser parser(limits_, budget_);
  parser.Feed("HEAD / HTTP/1.1\r\nHo");
  parser.Refuse({408, "late"});
  EXPECT_EQ(parser.state(), State::kRefused);
  EXPECT_EQ(parser.refusal().status, 408);
  EXPECT_EQ(parser.request().method, "HEAD");
}

}  // namespace
}  // namespace fathom::http
