#include "comm/rank_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace fathom::comm {
namespace {

TEST(RankLinkTest, IsReadAsItWasWritten) {
  const RankLink link = {.rank = 1, .control = 7, .ends = {3, -1, 12}};
  const Result<RankLink> read = ParseRankLink(ToText(link));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->control, 7);
  EXPECT_EQ(read->ends, link.ends);
}

TEST(RankLinkTest, OtherTextsAreRefused) {
  for (const char* text : {"", "1", "1:", "1:2", "1:2:", "x:2:3,4", "0:2:3;4", "2:5:1,2", "-1:2:3",
                           "0:1:2x", "0:1:99999999999"}) {
    const Result<RankLink> read = ParseRankLink(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_NE(read.error().message.find("RANK:CONTROL:END"), std::string::npos);
  }
}

TEST(RankLinkTest, FailuresKeepTheirKind) {
  const Error error = {ErrorCode::kOutOfMemory, "two\nlines"};
  const Error read = ParseFailureLine(FailureLine(error));
  EXPECT_EQ(read.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(read.message, "two lines");
  EXPECT_EQ(ParseFailureLine("what").message, "said \"what\"");
  EXPECT_EQ(ParseFailureLine("failed 99 x").code, ErrorCode::kIo);
}

TEST(HeartbeatTest, SaysThatItLivesAndHearsOfFailures) {
  int pair[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  AbortFlag abort_flag;
  {
    const Heartbeat heartbeat(pair[1], Watcher::kLauncher, abort_flag);
    char buffer[6];
    ASSERT_EQ(::recv(pair[0], buffer, sizeof(buffer), MSG_WAITALL), 6);
    EXPECT_EQ(std::string(buffer, 6), "alive\n");
    EXPECT_FALSE(abort_flag.raised());
    SendFailure(pair[0], {ErrorCode::kIo, "rank 3: was killed"});
    for (int i = 0; i < 500 && !abort_flag.raised(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ASSERT_FALSE(abort_flag.Check().has_value());
  EXPECT_EQ(abort_flag.Check().error().message, "rank 3: was killed");
  EXPECT_EQ(abort_flag.Check().error().code, ErrorCode::kUnavailable);
  ::close(pair[0]);
  ::close(pair[1]);
}

}  // namespace
}  // namespace fathom::comm
