// Events from streams, however they are cut.
#include "http/sse_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace fathom::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Events = std::vector<std::pair<std::string, std::string>>;

Status Feed(SseReader& reader, std::string_view piece, Events* events) {
  return reader.Read(
      piece, [events](const SseEvent& event) { events->emplace_back(event.event, event.data); });
}

Events ReadEvents(std::string_view stream) {
  SseReader reader;
  Events events;
  EXPECT_TRUE(Feed(reader, stream, &events));
  return events;
}

TEST(SseReaderTest, ReadsTypesAndData) {
  EXPECT_THAT(ReadEvents("event: ping\ndata: {}\n\ndata:[DONE]\n\n"),
              ElementsAre(Pair("ping", "{}"), Pair("", "[DONE]")));
}

TEST(SseReaderTest, JoinsLinesOfData) {
  EXPECT_THAT(ReadEvents("data: a\ndata:  b\ndata\n\n"), ElementsAre(Pair("", "a\n b\n")));
}

TEST(SseReaderTest, PassesOverCommentsAndOtherFields) {
  EXPECT_THAT(ReadEvents(": keep-alive\n\nid: 7\nretry: 10\ndatum: x\ndata: a\n: note\n\n"),
              ElementsAre(Pair("", "a")));
}

TEST(SseReaderTest, AnEventWithoutDataIsNone) {
  EXPECT_THAT(ReadEvents("event: ping\n\ndata: a\n\n"), ElementsAre(Pair("", "a")));
  EXPECT_THAT(ReadEvents("data:\n\n"), ElementsAre(Pair("", "")));
}

TEST(SseReaderTest, PassesOverAByteOrderMark) {
  EXPECT_THAT(ReadEvents("\xEF\xBB\xBF"
                         "data: a\n\n"),
              ElementsAre(Pair("", "a")));
}

TEST(SseReaderTest, LinesMayBeCutAnywhereAndEndInThreeWays) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string stream;
    for (const char* line : {"event: one", "data: first", "data: second", "", ": comment", "",
                             "data: \xC3\xA4", "", ""}) {
      stream += line + end;
    }
    const Events expected = {{"one", "first\nsecond"}, {"", "\xC3\xA4"}};
    for (std::size_t first = 0; first <= stream.size(); ++first) {
      for (std::size_t second = first; second <= stream.size(); ++second) {
        SseReader reader;
        Events events;
        ASSERT_TRUE(Feed(reader, stream.substr(0, first), &events));
        ASSERT_TRUE(Feed(reader, stream.substr(first, second - first), &events));
        ASSERT_TRUE(Feed(reader, stream.substr(second), &events));
        ASSERT_EQ(events, expected) << first << " " << second;
        ASSERT_TRUE(reader.IsBetweenEvents());
      }
    }
  }
}

TEST(SseReaderTest, KnowsWhetherAnEventIsHalfRead) {
  SseReader reader;
  Events events;
  EXPECT_TRUE(reader.IsBetweenEvents());
  ASSERT_TRUE(Feed(reader, "data: a", &events));
  EXPECT_FALSE(reader.IsBetweenEvents());
  ASSERT_TRUE(Feed(reader, "\n", &events));
  EXPECT_FALSE(reader.IsBetweenEvents());
  EXPECT_THAT(events, IsEmpty());
  ASSERT_TRUE(Feed(reader, "\n", &events));
  EXPECT_TRUE(reader.IsBetweenEvents());
}

TEST(SseReaderTest, RefusesWhatIsTooLong) {
  Events events;
  SseReader lines(16);
  ASSERT_TRUE(Feed(lines, "data: 0123456789", &events));  // 16 bytes
  const Status line = Feed(lines, "x", &events);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kInvalidData);

  SseReader data(16);
  ASSERT_TRUE(Feed(data, "data: 012345\ndata: 012345\n", &events));  // 13 bytes of data
  ASSERT_TRUE(Feed(data, "data: 012345\n", &events));
  EXPECT_FALSE(Feed(data, "data: 0\n\n", &events));
  EXPECT_THAT(events, IsEmpty());
}

}  // namespace
}  // namespace fathom::http
