#include "cli/terminal/serve_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace fathom::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The lines that are written to standard error.
std::string WriteLog(const std::function<void(ServeLog&)>& write,
                     LogFormat format = LogFormat::kText, bool quotes_requests = false) {
  ::testing::internal::CaptureStderr();
  {
    Log log(LogLevel::kInfo, format);
    ServeLog serve_log(log, quotes_requests);
    write(serve_log);
  }
  return ::testing::internal::GetCapturedStderr();
}

ServedRequest Refused(int status, const std::string& path) {
  ServedRequest record;
  record.id = "req_1";
  record.method = "GET";
  record.path = path;
  record.endpoint = "none";
  record.status = status;
  return record;
}

std::ptrdiff_t CountLines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(ServeLogTest, StrangersGetFewLinesAndACount) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string text = WriteLog(
        [](ServeLog& log) {
          for (const int status : {401, 403, 404, 405}) {
            for (int i = 0; i < 250; ++i) log.Add(Refused(status, "/wp-login.php"));
          }
        },
        format);
    EXPECT_EQ(CountLines(text), LineLimit::kLines + 1);
    EXPECT_THAT(text, HasSubstr("980 more requests without a key were refused"));
  }
}

TEST(ServeLogTest, ClientsGetAllLines) {
  const std::string text = WriteLog([](ServeLog& log) {
    for (int i = 0; i < 100; ++i) {
      ServedRequest with_key = Refused(404, "/v1/modles");
      with_key.has_key = true;
      log.Add(with_key);
      ServedRequest on_route = Refused(404, "/v1/models/x");
      on_route.endpoint = "/v1/models/";
      log.Add(on_route);
      log.Add(Refused(200, "/health"));
    }
  });
  EXPECT_EQ(CountLines(text), 300);
}

// An error quotes what it found, and a relaxed keyword has a path of the client's schema.
TEST(ServeLogTest, RequestsAreQuotedOnlyIfAsked) {
  ServedRequest record = Refused(400, "/v1/chat/completions");
  record.endpoint = record.path;
  record.SetError({.status = 400,
                   .message = "messages: expected a list, found \"patient Jane\"",
                   .type = "invalid_request_error",
                   .param = "messages"});
  record.relaxed = "guided_json/SECRET, guided_json/OTHER";
  const auto write = [&](ServeLog& log) { log.Add(record); };
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string text = WriteLog(write, format);
    EXPECT_THAT(text, HasSubstr("messages: invalid_request_error"));
    EXPECT_THAT(text, HasSubstr(format == LogFormat::kText ? ", 2 keywords not enforced"
                                                           : "\"constraints_relaxed\":2"));
    EXPECT_THAT(text, Not(HasSubstr("Jane")));
    EXPECT_THAT(text, Not(HasSubstr("SECRET")));
    const std::string full = WriteLog(write, format, true);
    EXPECT_THAT(full, HasSubstr("patient Jane"));
    EXPECT_THAT(full, HasSubstr("guided_json/SECRET, guided_json/OTHER"));
  }
  record.status = 500;
  EXPECT_THAT(WriteLog(write), HasSubstr("patient Jane"))
      << "a fault of the server tells its cause";
}

TEST(ServeLogTest, APeriodBeginsAnew) {
  LineLimit limit;
  LineLimit::Time now = LineLimit::Time() + std::chrono::hours(1);
  for (int period = 0; period < 3; ++period) {
    EXPECT_EQ(limit.TakeLeftOut(now), period == 0 ? 0 : 5);
    for (int i = 0; i < LineLimit::kLines; ++i) EXPECT_TRUE(limit.Take(now));
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.Take(now));
    EXPECT_EQ(limit.TakeLeftOut(now), 0) << "not yet";
    now += LineLimit::kPeriod;
  }
}

TEST(ServeLogTest, TextIsUtf8WithoutControlCharacters) {
  const std::string text = WriteLog([](ServeLog& log) {
    log.Add(Refused(200,
                    "/é🗼\x1b[31m\n\xff\xc3/\xc2\x9b"
                    "1m\x7f\xe2\x82"));
  });
  EXPECT_THAT(text, HasSubstr("/é🗼\\x1b[31m\\x0a\\xff\\xc3/\\xc2\\x9b1m\\x7f\\xe2\\x82 200"));
  EXPECT_EQ(CountLines(text), 1);
  EXPECT_THAT(text, Not(HasSubstr("\x9b")));
}

}  // namespace
}  // namespace fathom::cli
