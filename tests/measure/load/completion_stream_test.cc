// Streams as servers send them, to tokens and times.
#include "measure/load/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::measure::load {
namespace {

using ::testing::HasSubstr;

// Event i comes at second i + 1.
RequestRecord ReadRecord(const std::vector<std::string>& events, std::string* content = nullptr,
                         LoadEndpoint endpoint = LoadEndpoint::kChat) {
  CompletionStream stream(endpoint);
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
      ReadRecord({R"({"choices":[{"text":"a"}],"usage":null})", R"({"choices":[{"text":"b"}]})",
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
  const RequestRecord record = ReadRecord(
      {R"({"choices":[{"text":"a"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})",
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
  const RequestRecord record = ReadRecord(
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
  EXPECT_EQ(record.n_output, 4);          // no usage: a chunk counts as one token
}

TEST(CompletionStreamTest, ReadsResponses) {
  std::string content;
  const RequestRecord record = ReadRecord(
      {R"({"type":"response.created","response":{"error":null,"usage":null}})",
       R"({"type":"response.output_item.added","item":{"type":"reasoning"}})",
       R"({"type":"response.reasoning_text.delta","delta":"hm"})",
       R"({"type":"response.reasoning_text.done","text":"hm"})",
       R"({"type":"response.output_text.delta","delta":"x"})",
       R"({"type":"response.output_text.delta","delta":"yz"})",
       R"({"type":"response.output_text.delta","delta":"","logprobs":[]})",
       R"({"type":"response.output_text.done","text":"xyz"})",
       R"({"type":"response.function_call_arguments.delta","delta":"{}"})",
       R"({"type":"response.incomplete","response":{"error":null,"usage":{"input_tokens":9,)"
       R"("input_tokens_details":{"cached_tokens":4},"output_tokens":6}}})"},
      &content, LoadEndpoint::kResponses);
  EXPECT_TRUE(record.successful()) << record.message;
  EXPECT_EQ(content, "xyz");
  EXPECT_EQ(record.n_input, 9);
  EXPECT_EQ(record.n_cached, 4);
  EXPECT_EQ(record.n_output, 6);
  ASSERT_EQ(record.chunks.size(), 4u);
  EXPECT_EQ(record.chunks[0].time_s, 3);  // an announcement is no token
  EXPECT_EQ(record.chunks[3].time_s, 9);
}

TEST(CompletionStreamTest, ReadsMessages) {
  std::string content;
  const RequestRecord record = ReadRecord(
      {R"({"type":"message_start","message":{"usage":{"input_tokens":5,)"
       R"("cache_creation_input_tokens":1,"cache_read_input_tokens":3,"output_tokens":1}}})",
       R"({"type":"ping"})", R"({"type":"content_block_start","content_block":{"type":"text"}})",
       R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}})",
       R"({"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}})",
       R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}})",
       R"({"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}})",
       R"({"type":"message_delta","delta":{"stop_reason":"max_tokens"},)"
       R"("usage":{"output_tokens":7}})",
       R"({"type":"message_stop"})"},
      &content, LoadEndpoint::kMessages);
  EXPECT_TRUE(record.successful()) << record.message;
  EXPECT_EQ(content, "x");
  EXPECT_EQ(record.n_input, 9);
  EXPECT_EQ(record.n_cached, 3);
  EXPECT_EQ(record.n_output, 7);
  ASSERT_EQ(record.chunks.size(), 3u);
  EXPECT_EQ(record.chunks[0].time_s, 4);
  EXPECT_EQ(record.chunks[2].time_s, 7);
}

TEST(CompletionStreamTest, FailuresOfTheOtherApisSayWhat) {
  struct {
    LoadEndpoint endpoint;
    std::vector<std::string> events;
    const char* message;
  } const cases[] = {
      {LoadEndpoint::kResponses, {}, "ended without response.completed"},
      {LoadEndpoint::kResponses, {"[DONE]"}, "ended without response.completed"},
      {LoadEndpoint::kResponses,
       {R"({"type":"response.failed","response":{"error":{"message":"it broke"}}})"},
       "it broke"},
      {LoadEndpoint::kResponses, {R"({"type":"response.failed"})"}, "an error without a message"},
      {LoadEndpoint::kResponses, {R"({"type":"error","message":"too late"})"}, "too late"},
      {LoadEndpoint::kMessages, {R"({"type":"message_delta"})"}, "ended without message_stop"},
      {LoadEndpoint::kMessages,
       {R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})"},
       "busy"},
      {LoadEndpoint::kMessages, {"[]"}, "no JSON object"}};
  for (const auto& [endpoint, events, message] : cases) {
    const RequestRecord record = ReadRecord(events, nullptr, endpoint);
    EXPECT_EQ(record.failure, "error in the stream");
    EXPECT_THAT(record.message, HasSubstr(message));
  }
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
    const RequestRecord record = ReadRecord(events);
    EXPECT_EQ(record.failure, "error in the stream");
    EXPECT_THAT(record.message, HasSubstr(message));
  }
}

TEST(CompletionStreamTest, OddUsageDoesNoHarm) {
  const RequestRecord record = ReadRecord(
      {R"({"choices":[{"text":"a"}],"usage":{"completion_tokens":-5}})",
       R"({"choices":{"a":1},"usage":{"completion_tokens":"x","prompt_tokens":1e9}})",
       R"({"choices":[3],"usage":{"prompt_tokens_details":7,"completion_tokens":2}})", "[DONE]"});
  EXPECT_EQ(record.n_input, 0);
  EXPECT_EQ(record.n_output, 2);
}

TEST(ErrorMessageTest, FindsTheMessageOfBothApis) {
  EXPECT_EQ(FindErrorMessage(R"({"error":{"message":"too long","type":"x"}})"), "too long");
  EXPECT_EQ(FindErrorMessage(R"({"type":"error","error":{"type":"t","message":"no"}})"), "no");
  EXPECT_EQ(FindErrorMessage("<html>\nbusy"), "<html> busy");
  EXPECT_EQ(FindErrorMessage(std::string(1000, 'x')), std::string(300, 'x').append("..."));
}

}  // namespace
}  // namespace fathom::measure::load
