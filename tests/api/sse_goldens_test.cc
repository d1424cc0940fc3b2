// Streams, byte for byte: clients depend on every key and on their order of chunks.
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDone = "data: [DONE]\n\n";
constexpr std::string_view kRole = R"("delta":{"role":"assistant","content":""})";
constexpr std::string_view kOpen = R"(,"logprobs":null,"finish_reason":null)";

std::string Chunk(std::string_view object, std::string_view choices, std::string_view usage = "") {
  return std::string(R"(data: {"id":"ID","object":")")
      .append(object)
      .append(R"(","created":1700000000,"model":"m","system_fingerprint":"fp_test","choices":[)")
      .append(choices)
      .append("]")
      .append(usage)
      .append("}\n\n");
}

// A chunk of choice 0 (or another): its delta, and what comes behind that.
std::string ChatChunk(std::string_view delta, std::string_view rest = kOpen, int index = 0,
                      std::string_view usage = "") {
  std::string choice = R"({"index":)" + std::to_string(index) + ",";
  return Chunk("chat.completion.chunk", choice.append(delta).append(rest).append("}"), usage);
}

std::string Content(std::string_view text) {
  return std::string(R"("delta":{"content":")").append(text).append("\"}");
}

std::string Reasoning(std::string_view text) {
  return std::string(R"("delta":{"reasoning_content":")")
      .append(text)
      .append(R"(","reasoning":")")
      .append(text)
      .append("\"}");
}

std::string Call(std::string_view call) {
  return std::string(R"("delta":{"tool_calls":[{)").append(call).append("}]}");
}

std::string Finish(std::string_view reason, std::string_view stop = "null",
                   std::string_view logprobs = "null") {
  return std::string(R"("delta":{},"logprobs":)")
      .append(logprobs)
      .append(R"(,"finish_reason":")")
      .append(reason)
      .append(R"(","stop_reason":)")
      .append(stop);
}

std::string Join(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text.append(kDone);
}

// Events of choice 0 with these texts; the last one ends it.
std::vector<StreamEvent> Texts(std::initializer_list<std::string_view> texts, FinishReason finish) {
  std::vector<StreamEvent> events;
  for (const std::string_view text : texts) {
    events.push_back(
        {.token = 5, .index = static_cast<std::int64_t>(events.size()), .text = std::string(text)});
  }
  events.back().finish = finish;
  return events;
}

class SseGoldensTest : public testing::ApiModelTest {
 protected:
  std::string Stream(const std::string& fields, const std::vector<StreamEvent>& events,
                     const RequestStats& stats = {}) {
    const std::string body = R"({"model": "m", "stream": true, )" +
                             std::string(R"("messages": [{"role": "user", "content": "Hi"}])") +
                             fields + "}";
    return Stream(&kChatCompletions, body, events, stats);
  }

  std::string Stream(const Api* endpoint, const std::string& body,
                     const std::vector<StreamEvent>& events, const RequestStats& stats = {}) {
    const ApiResult<ApiCall> call = endpoint->prepare(body, model_);
    EXPECT_TRUE(call) << call.error().message;
    if (!call) return "";
    n_prompt_ = call->requests[0].prompt.size();
    const std::string stream = testing::Tell(*call, model_, events, stats).stream;
    return Named("call_", "CALL", Named("cmpl-", "ID", Named("chatcmpl-", "ID", stream)));
  }

  // `text` with `name` in place of every id of that prefix.
  static std::string Named(std::string_view prefix, std::string_view name, std::string text) {
    constexpr std::size_t kIdBytes = 24;
    for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
      text.replace(at, prefix.size() + kIdBytes, name);
    }
    return text;
  }

  std::size_t n_prompt_ = 0;
};

constexpr const char* kPlain = R"(, "enable_thinking": false)";
constexpr const char* kGoldenTools =
    R"(, "enable_thinking": false,
        "tools": [{"type": "function", "function": {"name": "f"}}])";

TEST_F(SseGoldensTest, Plain) {
  EXPECT_EQ(Stream(kPlain, Texts({"On", "ce \"", ""}, FinishReason::kStop)),
            Join({ChatChunk(kRole), ChatChunk(Content("On")), ChatChunk(Content("ce \\\"")),
                  ChatChunk(Finish("stop"), "")}));
  EXPECT_EQ(Stream(kPlain, Texts({""}, FinishReason::kStop)),
            Join({ChatChunk(kRole), ChatChunk(Finish("stop"), "")}))
      << "an empty answer";
}

TEST_F(SseGoldensTest, Thinking) {
  const std::vector<StreamEvent> events =
      Texts({"Hm", ".</th", "ink>So", "."}, FinishReason::kStop);
  EXPECT_EQ(Stream("", events), Join({ChatChunk(kRole), ChatChunk(Reasoning("Hm")),
                                      ChatChunk(Reasoning(".")), ChatChunk(Content("So")),
                                      ChatChunk(Content(".")), ChatChunk(Finish("stop"), "")}));
  EXPECT_EQ(Stream(R"(, "include_reasoning": false)", events),
            Join({ChatChunk(kRole), ChatChunk(Content("So")), ChatChunk(Content(".")),
                  ChatChunk(Finish("stop"), "")}));
  // One event with both is two deltas.
  EXPECT_EQ(Stream("", Texts({"Hm</think>So"}, FinishReason::kStop)),
            Join({ChatChunk(kRole), ChatChunk(Reasoning("Hm")), ChatChunk(Content("So")),
                  ChatChunk(Finish("stop"), "")}));
}

TEST_F(SseGoldensTest, ToolStream) {
  EXPECT_EQ(Stream(kGoldenTools,
                   Texts({"See\n\n", "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n",
                          "<｜DSML｜parameter name=\"a\" string=\"true\">x", "y",
                          "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_", "calls>"},
                         FinishReason::kStop)),
            Join({ChatChunk(kRole), ChatChunk(Content("See")),
                  ChatChunk(Call(R"("index":0,"id":"CALL","type":"function",)"
                                 R"("function":{"name":"f","arguments":""})")),
                  ChatChunk(Call(R"("index":0,"function":{"arguments":"{\"a\": \"x"})")),
                  ChatChunk(Call(R"("index":0,"function":{"arguments":"y"})")),
                  ChatChunk(Call(R"("index":0,"function":{"arguments":"\"}"})")),
                  ChatChunk(Finish("tool_calls"), "")}));
}

TEST_F(SseGoldensTest, ParallelTools) {
  constexpr std::string_view kOpening = "<｜DSML｜tool_calls>\n";
  constexpr std::string_view kEmpty = "<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n";
  constexpr std::string_view kClosing = "</｜DSML｜tool_calls>";
  const auto call = [](int index) {
    const std::string number = std::to_string(index);
    return ChatChunk(
               Call(R"("index":)" + number +
                    R"(,"id":"CALL","type":"function","function":{"name":"f","arguments":""})")) +
           ChatChunk(Call(R"("index":)" + number + R"(,"function":{"arguments":"{}"})"));
  };
  const std::vector<StreamEvent> events =
      Texts({kOpening, kEmpty, kEmpty, kClosing, "bye"}, FinishReason::kStop);
  EXPECT_EQ(Stream(kGoldenTools, events),
            Join({ChatChunk(kRole), call(0), call(1), ChatChunk(Finish("tool_calls"), "")}));
  EXPECT_EQ(Stream(std::string(kGoldenTools) + R"(, "parallel_tool_calls": false)", events),
            Join({ChatChunk(kRole), call(0), ChatChunk(Finish("tool_calls"), "")}));
}

TEST_F(SseGoldensTest, StopStringAcrossTokens) {
  // The engine holds back text that may become "END".
  std::vector<StreamEvent> events = Texts({"a", "", "EN b", ""}, FinishReason::kStopString);
  events.back().stop_string = 1;
  EXPECT_EQ(Stream(std::string(kPlain) + R"(, "stop": ["x", "END"])", events),
            Join({ChatChunk(kRole), ChatChunk(Content("a")), ChatChunk(Content("EN b")),
                  ChatChunk(Finish("stop", "\"END\""), "")}));
  events = Texts({"a"}, FinishReason::kStop);
  EXPECT_EQ(Stream(std::string(kPlain) + R"(, "stop_token_ids": [5])", events),
            Join({ChatChunk(kRole), ChatChunk(Content("a")), ChatChunk(Finish("stop", "5"), "")}));
}

TEST_F(SseGoldensTest, LengthInEachState) {
  EXPECT_EQ(Stream("", Texts({"Hm</thi"}, FinishReason::kLength)),
            Join({ChatChunk(kRole), ChatChunk(Reasoning("Hm")), ChatChunk(Reasoning("</thi")),
                  ChatChunk(Finish("length"), "")}));
  EXPECT_EQ(Stream(kGoldenTools, Texts({"So <｜DSML｜tool_"}, FinishReason::kLength)),
            Join({ChatChunk(kRole), ChatChunk(Content("So ")), ChatChunk(Finish("length"), "")}));
  EXPECT_EQ(Stream(kGoldenTools, Texts({"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
                                        "<｜DSML｜parameter name=\"a\" string=\"true\">x</"},
                                       FinishReason::kLength)),
            Join({ChatChunk(kRole),
                  ChatChunk(Call(R"("index":0,"id":"CALL","type":"function",)"
                                 R"("function":{"name":"f","arguments":""})")),
                  ChatChunk(Call(R"("index":0,"function":{"arguments":"{\"a\": \"x"})")),
                  ChatChunk(Finish("length"), "")}));
}

TEST_F(SseGoldensTest, TwoChoices) {
  std::vector<StreamEvent> events;
  for (const auto& [choice, text] : std::initializer_list<std::pair<std::uint32_t, const char*>>{
           {1, "b"}, {0, "a"}, {0, "A"}, {1, "B"}}) {
    events.push_back({.choice = choice, .token = 5, .text = text});
  }
  events.push_back({.choice = 1, .token = 1, .finish = FinishReason::kStop});
  events.push_back({.choice = 0, .token = 5, .text = "!", .finish = FinishReason::kLength});
  EXPECT_EQ(Stream(std::string(kPlain) + R"(, "n": 2)", events),
            Join({ChatChunk(kRole, kOpen, 1), ChatChunk(Content("b"), kOpen, 1), ChatChunk(kRole),
                  ChatChunk(Content("a")), ChatChunk(Content("A")),
                  ChatChunk(Content("B"), kOpen, 1), ChatChunk(Finish("stop"), "", 1),
                  ChatChunk(Content("!")), ChatChunk(Finish("length"), "")}));
}

std::string UsageText(std::size_t prompt, std::size_t completion, const std::string& details) {
  return R"(,"usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"completion_tokens":)" +
         std::to_string(completion) + R"(,"total_tokens":)" + std::to_string(prompt + completion) +
         R"(,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{)" +
         R"("reasoning_tokens":0)" + details + R"(},"prompt_cache_hit_tokens":1,)" +
         R"("prompt_cache_miss_tokens":)" + std::to_string(prompt - 1) + "}";
}

TEST_F(SseGoldensTest, Usage) {
  const std::vector<StreamEvent> events = Texts({"a", ""}, FinishReason::kStop);
  const RequestStats stats = {.cached_tokens = 1, .drafted_tokens = 3, .accepted_tokens = 1};
  constexpr std::string_view kNull = R"(,"usage":null)";
  const std::string drafts = R"(,"accepted_prediction_tokens":1,"rejected_prediction_tokens":2)";
  const std::string include = R"(, "stream_options": {"include_usage": true)";
  const std::string at_the_end = Stream(kPlain + include + "}", events, stats);
  EXPECT_EQ(at_the_end,
            Join({ChatChunk(kRole, kOpen, 0, kNull), ChatChunk(Content("a"), kOpen, 0, kNull),
                  ChatChunk(Finish("stop"), "", 0, kNull),
                  Chunk("chat.completion.chunk", "", UsageText(n_prompt_, 2, drafts))}));
  const std::string continuous = Stream(kPlain + include + R"(, "continuous_usage_stats": true})",
                                        events, {.cached_tokens = 1});
  EXPECT_EQ(continuous, Join({ChatChunk(kRole, kOpen, 0, UsageText(n_prompt_, 1, "")),
                              ChatChunk(Content("a"), kOpen, 0, UsageText(n_prompt_, 1, "")),
                              ChatChunk(Finish("stop"), "", 0, UsageText(n_prompt_, 2, "")),
                              Chunk("chat.completion.chunk", "", UsageText(n_prompt_, 2, ""))}));
}

TEST_F(SseGoldensTest, ErrorInTheMiddle) {
  std::vector<StreamEvent> events = Texts({"a", ""}, FinishReason::kError);
  events.back().error = Error{ErrorCode::kIo, "NaN"};
  const std::string error =
      "data: {\"error\":{\"message\":\"NaN\",\"type\":\"server_error\",\"param\":null,"
      "\"code\":\"server_error\"}}\n\n";
  EXPECT_EQ(Stream(kPlain, events), ChatChunk(kRole) + ChatChunk(Content("a")) + error)
      << "and nothing says that it is done";
  EXPECT_EQ(Stream(&kCompletions, R"({"model": "m", "prompt": "", "stream": true})", events),
            Chunk("text_completion", R"({"index":0,"text":"a","logprobs":null,)"
                                     R"("finish_reason":null,"stop_reason":null})") +
                error);
}

TEST_F(SseGoldensTest, Completion) {
  const std::vector<StreamEvent> events = Texts({"a", "", "b", ""}, FinishReason::kStop);
  const auto chunk = [](std::string_view text, std::string_view finish = "null") {
    return Chunk("text_completion", std::string(R"({"index":0,"text":")")
                                        .append(text)
                                        .append(R"(","logprobs":null,"finish_reason":)")
                                        .append(finish)
                                        .append(R"(,"stop_reason":null})"));
  };
  EXPECT_EQ(Stream(&kCompletions, R"({"model": "m", "prompt": "p", "stream": true})", events),
            Join({chunk("a"), chunk("b"), chunk("", "\"stop\"")}));
  EXPECT_EQ(Stream(&kCompletions, R"({"model": "m", "prompt": "p ", "echo": true, "stream": true})",
                   events),
            Join({chunk("p a"), chunk("b"), chunk("", "\"stop\"")}));
}

std::vector<StreamEvent> WithLogprobs(std::vector<StreamEvent> events) {
  for (StreamEvent& event : events) {
    if (event.token == StreamEvent::kNoToken) continue;
    const float logprob = -0.25f * static_cast<float>(event.index + 1);
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = logprob}, .top = {}};
  }
  return events;
}

TEST_F(SseGoldensTest, Logprobs) {
  const Token a = Tokens("a").front();
  std::vector<StreamEvent> events = {{.token = a, .text = "a"},
                                     {.token = 1, .index = 1, .finish = FinishReason::kStop}};
  EXPECT_EQ(Stream(std::string(kPlain) + R"(, "logprobs": true)", WithLogprobs(events)),
            Join({ChatChunk(kRole),
                  ChatChunk(Content("a"),
                            R"(,"logprobs":{"content":[{"token":"a","logprob":-0.25,"bytes":[97],)"
                            R"("top_logprobs":[]}]},"finish_reason":null)"),
                  ChatChunk(Finish("stop"), "")}));
}

// Held back or not, what the chunks say together is what the whole response says.
TEST_F(SseGoldensTest, LogprobsComeWithTheirText) {
  const std::string text = "Let 😀 me\n\nsee.\n</think>Once 😀 upon\n\na <time.";
  for (const std::size_t n_held : {0u, 1u, 4u, 1000u}) {
    for (const char* fields : {R"(, "logprobs": true)", R"(, "logprobs": true, "n": 1,
             "include_reasoning": false)"}) {
      const auto call = kChatCompletions.prepare(
          std::string(R"({"messages": [{"role": "user", "content": "Hi"}])") + fields + "}",
          model_);
      ASSERT_TRUE(call);
      const testing::ToldAnswer told =
          testing::Tell(*call, model_, WithLogprobs(Events(text, FinishReason::kStop, n_held)));
      const std::vector<Json> chunks = testing::Chunks(told.stream);
      EXPECT_EQ(testing::JoinChoices(chunks), told.whole["choices"]);
      for (const Json& chunk : chunks) {
        const Json& choice = chunk["choices"][0];
        const Json& delta = choice["delta"];
        if (choice["logprobs"].is_null()) continue;
        EXPECT_EQ(delta.contains("reasoning"), choice["logprobs"].contains("reasoning_content"));
        EXPECT_TRUE(delta.contains("reasoning") || !choice["logprobs"]["content"].empty());
      }
    }
  }
}

TEST_F(SseGoldensTest, LogprobsOfACompletionGoOn) {
  const auto call = kCompletions.prepare(R"({"prompt": "a", "logprobs": 0})", model_);
  ASSERT_TRUE(call);
  for (const std::size_t n_held : {0u, 2u}) {
    const testing::ToldAnswer told = testing::Tell(
        *call, model_, WithLogprobs(Events("Once 😀 upon a time", FinishReason::kStop, n_held)));
    Json joined;
    std::string text;
    for (const Json& chunk : testing::Chunks(told.stream)) {
      text += chunk["choices"][0]["text"].get<std::string>();
      for (const auto& [key, list] : chunk["choices"][0]["logprobs"].items()) {
        for (const Json& entry : list) joined[key].push_back(entry);
      }
    }
    EXPECT_EQ(text, told.whole["choices"][0]["text"]);
    EXPECT_EQ(joined, told.whole["choices"][0]["logprobs"]);
  }
}

}  // namespace
}  // namespace fathom::api
