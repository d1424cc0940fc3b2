// Where a client connects to.
#include "http/http_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(HttpUrlTest, ReadsHostPortAndPrefix) {
  const Result<HttpUrl> url = ParseHttpUrl("http://example.org:8000/some/prefix/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, 8000);
  EXPECT_EQ(url->path, "/some/prefix");
  EXPECT_EQ(url->authority(), "example.org:8000");
}

TEST(HttpUrlTest, PortAndPathMayBeMissing) {
  for (const char* text : {"http://localhost", "http://localhost/"}) {
    const Result<HttpUrl> url = ParseHttpUrl(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(url->authority(), "localhost:80");
    EXPECT_EQ(url->path, "");
  }
}

TEST(HttpUrlTest, AddressesOfIpVersion6StandInBrackets) {
  const Result<HttpUrl> url = ParseHttpUrl("http://[::1]:81");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 81);
  EXPECT_EQ(url->authority(), "[::1]:81");
}

TEST(HttpUrlTest, RefusesWhatItCannotReach) {
  const Result<HttpUrl> tls = ParseHttpUrl("https://example.org");
  ASSERT_FALSE(tls);
  EXPECT_EQ(tls.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tls.error().message, ::testing::HasSubstr("https is not supported"));
  for (const char* text :
       {"", "localhost:80", "http://", "http://:80", "http://a:", "http://a:0", "http://a:65536",
        "http://a:8x", "http://[::1", "http://[]", "http://[::1]80", "http://a b", "http://a/?q",
        "http://u@a", "ftp://a", "http://a\r\nX: y"}) {
    const Result<HttpUrl> url = ParseHttpUrl(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(url.error().message, ::testing::HasSubstr("expected http://HOST")) << text;
  }
}

}  // namespace
}  // namespace fathom
