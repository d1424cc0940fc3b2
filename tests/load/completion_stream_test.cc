// Streams as servers send them, to tokens and times.
#include "load/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::load {
namespace {

using ::testing::HasSubstr;

// Event i comes at second i + 1.
RequestRecord RecordOf(const std::vector<std::string>& events, std::string* content = nullptr) {
  CompletionStream stream;
  double time_s = 0;
  for (const std::string& event : events) {
    stream.Take(event, time_s += 1);
  }
  RequestRecord record;
  stream.Finish(&record);
  if (content != nullptr) *content = stream.content();
  return record;
}

TEST(CompletionStreamTest, ReadsCompletionsWithUsageAtTheEnd) {
  const RequestRecord record =
      RecordOf({R"({"choices":[{"text":"a"}],"usage":null})", R"({"choices":[{"text":"b"}]})",
                R"({"choices":[{"text":"","finish_reason":"length"}]})",
                R"({"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,)"
                R"("prompt_tokens_details":{"cached_tokens":4}}})",
                "[DONE]"});
  EXPECT_TRUE(record.successful()) << record.message;
  EXPECT_EQ(record.n_input, 10);
  EXPECT_EQ(record.n_cached, 4);
  EXPECT_EQ(record.n_output, 5);
  ASSERT_EQ(record.chunks.size(), 2u);
  EXPECT_EQ(record.chunks[0].time_s, 1);
  EXPECT_EQ(record.chunks[1].time_s, 2);
  EXPECT_EQ(record.chunks[1].n_tokens, 1);
}

TEST(CompletionStreamTest, UsageOfEveryChunkSaysHowManyTokensItBrings) {
  const RequestRecord record =
      RecordOf({R"({"choices":[{"text":"a"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})",
                R"({"choices":[{"text":"bcd"}],"usage":{"prompt_tokens":3,"completion_tokens":4}})",
                R"({"choices":[{"text":""}],"usage":{"prompt_tokens":3,"completion_tokens":5}})",
                R"({"choices":[{"text":""}],"usage":{"prompt_tokens":3,"completion_tokens":5}})",
                R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}})", "[DONE]"});
  EXPECT_EQ(record.n_output, 5);
  ASSERT_EQ(record.chunks.size(), 3u);
  EXPECT_EQ(record.chunks[1].n_tokens, 3);
  EXPECT_EQ(record.chunks[2].n_tokens, 1);
  EXPECT_EQ(record.chunks[2].time_s, 3);
}

TEST(CompletionStreamTest, ReadsChats) {
  std::string content;
  const RequestRecord record = RecordOf(
      {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})",
       R"({"choices":[{"delta":{"reasoning_content":"hm","reasoning":"hm"}}]})",
       R"({"choices":[{"delta":{"content":"x"}}]})", R"({"choices":[{"delta":{"content":"y"}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})",
       R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", "[DONE]"},
      &content);
  EXPECT_TRUE(record.successful());
  EXPECT_EQ(content, "xy");
  ASSERT_EQ(record.chunks.size(), 4u);
  EXPECT_EQ(record.chunks[0].time_s, 2);  // the role alone is no token
  EXPECT_EQ(record.n_output, 4);          // nobody said: a chunk is one
}

TEST(CompletionStreamTest, FailuresSayWhat) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "ended without [DONE]"},
      {{R"({"choices":[{"text":"a"}]})"}, "ended without [DONE]"},
      {{R"({"error":{"message":"the model broke","code":500}})", "[DONE]"}, "the model broke"},
      {{R"({"error":"plain"})"}, "plain"},
      {{R"({"error":{}})"}, "an error without a message"},
      {{"{", "[DONE]"}, "no JSON"},
      {{"[]", "[DONE]"}, "no JSON object"}};
  for (const auto& [events, message] : cases) {
    const RequestRecord record = RecordOf(events);
    EXPECT_EQ(record.failure, "error in the stream");
    EXPECT_THAT(record.message, HasSubstr(message));
  }
}

TEST(CompletionStreamTest, OddUsageDoesNoHarm) {
  const RequestRecord record = RecordOf(
      {R"({"choices":[{"text":"a"}],"usage":{"completion_tokens":-5}})",
       R"({"choices":{"a":1},"usage":{"completion_tokens":"x","prompt_tokens":1e9}})",
       R"({"choices":[3],"usage":{"prompt_tokens_details":7,"completion_tokens":2}})", "[DONE]"});
  EXPECT_EQ(record.n_input, 0);
  EXPECT_EQ(record.n_output, 2);
}

TEST(ErrorMessageTest, FindsTheMessageOfBothApis) {
  EXPECT_EQ(ErrorMessageOf(R"({"error":{"message":"too long","type":"x"}})"), "too long");
  EXPECT_EQ(ErrorMessageOf(R"({"type":"error","error":{"type":"t","message":"no"}})"), "no");
  EXPECT_EQ(ErrorMessageOf("<html>\nbusy"), "<html> busy");
  EXPECT_EQ(ErrorMessageOf(std::string(1000, 'x')), std::string(300, 'x') + "...");
}

}  // namespace
}  // namespace fathom::load
