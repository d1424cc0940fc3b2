#include "http/http_response_text.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom::http {
namespace {

constexpr std::time_t kTime = 784111777;  // the example of RFC 9110

TEST(HttpResponseTextTest, IsTheSameToTheByte) {
  EXPECT_EQ(ResponseHeader({.fields = {{"X-A", "b"}}, .body = "four"}, BodyFraming::kLength,
                           Persistence::kKeep, kTime),
            "HTTP/1.1 200 OK\r\nServer: fathom\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: application/json\r\nContent-Length: 4\r\nX-A: b\r\n\r\n");
  EXPECT_EQ(ResponseHeader({.content_type = "text/event-stream"}, BodyFraming::kChunked,
                           Persistence::kClose, kTime),
            "HTTP/1.1 200 OK\r\nServer: fathom\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n\r\n");
  EXPECT_EQ(ResponseHeader({.status = 204}, BodyFraming::kLength, Persistence::kKeepHttp1_0, kTime),
            "HTTP/1.1 204 No Content\r\nServer: fathom\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Connection: keep-alive\r\n\r\n");
}

TEST(HttpResponseTextTest, AStatusWithoutAReasonKeepsTheBlank) {
  const std::string text =
      ResponseHeader({.status = 418}, BodyFraming::kUntilClose, Persistence::kClose, kTime);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 418 \r\n"));
}

TEST(HttpResponseTextTest, NoValueBeginsAnotherLine) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string text = ResponseHeader({.content_type = "a\r\nb: c", .fields = {{"A", all}}},
                                          BodyFraming::kLength, Persistence::kKeep, kTime);
  const std::size_t n_before = 6;
  std::size_t n_lines = 0;
  for (const char c : text) n_lines += c == '\n' ? 1U : 0U;
  EXPECT_EQ(n_lines, n_before + 1);
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_NE(text.find("Content-Type: a  b: c\r\n"), std::string::npos);
}

TEST(HttpResponseTextDeathTest, OurOwnNamesAreChecked) {
  for (const char* name : {"", "A b", "A:", "A\r\nB"}) {
    EXPECT_DEATH(
        ResponseHeader({.fields = {{name, "b"}}}, BodyFraming::kLength, Persistence::kKeep, kTime),
        "wrong name");
  }
}

}  // namespace
}  // namespace fathom::http
