
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/anthropic/messages_api.h"
#include "api/anthropic/messages_format.h"
#include "api/common/api.h"
#include "api/common/reasoning_token.h"
#include "json/json_writer.h"
#include "tests/api/api_model.h"
#include "tests/api/golden_answers.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Kind = AnswerEvent::Kind;

constexpr std::string_view kTwoCalls =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"a\" string=\"true\">x\"y</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"n\" string=\"false\">[1,\n 2.50]</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

// The engine's count of generated tokens: the engine may continue after the end of the answer.
constexpr std::int64_t kNotCounted = 1000;
constexpr std::int64_t kPromptTokens = 10;

struct Told {
  std::string stream;
  ApiReply whole;
};

// "toolu_" and "msg_" with what is drawn at random -> toolu_ID and msg_ID.
std::string WithoutIds(std::string text) {
  constexpr std::size_t kDrawn = 24;
  for (const std::string prefix : {"toolu_", "msg_"}) {
    for (std::size_t at = text.find(prefix); at != std::string::npos;
         at = text.find(prefix, at + 1)) {
      text.replace(at + prefix.size(), kDrawn, "ID");
    }
  }
  return text;
}

// Reads a stream as a client does, and fails where a client would. Returns the message, with the
// input of calls as JSON.
Json ReadStream(std::string_view stream) {
  Json message;
  Json block;  // the open one
  std::string input;
  bool is_stopped = false;
  while (!stream.empty()) {
    const std::size_t end = stream.find("\n\n");
    const std::string_view event = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    const std::size_t line = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && line != std::string_view::npos) << event;
    const Json data = Json::parse(event.substr(line + 7), nullptr, false);
    const std::string type = data["type"].get<std::string>();
    EXPECT_EQ(event.substr(7, line - 7), type);
    EXPECT_FALSE(is_stopped) << "an event after the last";
    EXPECT_EQ(message.is_null(), type == "message_start") << "first of all, and once";
    if (type == "message_start") {
      message = data["message"];
    } else if (type == "content_block_start") {
      EXPECT_TRUE(block.is_null()) << "two open blocks";
      EXPECT_EQ(data["index"], message["content"].size());
      block = data["content_block"];
      input.clear();
    } else if (type == "content_block_delta") {
      EXPECT_EQ(data["index"], message["content"].size());
      const Json& delta = data["delta"];
      const std::string of = block["type"].get<std::string>();
      if (delta["type"] == "input_json_delta") {
        EXPECT_EQ(of, "tool_use");
        input += delta["partial_json"].get<std::string>();
      } else if (delta["type"] == "signature_delta") {
        EXPECT_EQ(block["signature"], "") << "once";
        block["signature"] = delta["signature"];
      } else {
        EXPECT_EQ(delta["type"], of + "_delta");
        EXPECT_NE(delta[of], "");
        EXPECT_TRUE(of != "thinking" || block["signature"] == "") << "the signature comes last";
        block[of] = block[of].get<std::string>() + delta[of].get<std::string>();
      }
    } else if (type == "content_block_stop") {
      EXPECT_EQ(data["index"], message["content"].size());
      const std::string of = block["type"].get<std::string>();
      if (of == "tool_use") block["input"] = Json::parse(input, nullptr, false);
      EXPECT_TRUE(of == "tool_use" ? block["input"].is_object() : block[of] != "");
      EXPECT_TRUE(of != "thinking" || block["signature"] != "");
      message["content"].push_back(std::exchange(block, nullptr));
    } else if (type == "message_delta") {
      EXPECT_TRUE(block.is_null()) << "an open block";
      message["stop_reason"] = data["delta"]["stop_reason"];
      message["stop_sequence"] = data["delta"]["stop_sequence"];
      message["usage"] = data["usage"];
    } else {
      EXPECT_TRUE(type == "ping" || type == "message_stop") << type;
      is_stopped = type == "message_stop";
    }
  }
  EXPECT_TRUE(is_stopped);
  return message;
}

class MessagesFormatTest : public testing::ApiModelTest {
 protected:
  void Prepare(const std::string& fields) {
    call_ =
        *kMessages.prepare(R"({"model": "m", "stream": true, "messages": [{"role": "user", )"
                           R"("content": "Hi"}], "tools": [{"name": "f", "input_schema": {}}])" +
                               fields + "}",
                           model_);
    call_.requests[0].prompt.resize(kPromptTokens);
  }

  Told Tell(const std::vector<StreamEvent>& events) const {
    ApiAnswer answer(call_, model_, 1700000000, testing::CountingBits());
    const std::unique_ptr<AnswerFormat> format = answer.call().api->make_format();
    Told told;
    const RequestStats stats = {
        .prompt_tokens = kPromptTokens, .cached_tokens = 4, .generated_tokens = kNotCounted};
    answer.Start(0, stats);
    format->Begin(answer, &told.stream);
    for (const StreamEvent& event : events) {
      format->Add(answer, answer.Add(0, event), &told.stream);
    }
    answer.End(0, stats);
    if (answer.error()) {
      format->Fail(answer, *answer.error(), &told.stream);
    } else {
      format->End(answer, &told.stream);
    }
    told.whole = WholeReply(answer);
    return told;
  }
  Told Tell(std::string_view text, FinishReason finish) const { return Tell(Events(text, finish)); }

  ApiCall call_;
};

std::string Sse(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + data + "}\n\n";
}
std::string Start() {
  return Sse("message_start",
             R"(,"message":{"id":"msg_ID","type":"message","role":"assistant","model":"m",)"
             R"("content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,)"
             R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}})") +
         Sse("ping", "");
}
std::string BlockStart(int index, const std::string& block) {
  return Sse("content_block_start",
             ",\"index\":" + std::to_string(index) + ",\"content_block\":{\"type\":" + block + "}");
}
std::string Delta(int index, const std::string& delta) {
  return Sse("content_block_delta",
             ",\"index\":" + std::to_string(index) + ",\"delta\":{\"type\":" + delta + "}");
}
std::string BlockStop(int index) {
  return Sse("content_block_stop", ",\"index\":" + std::to_string(index));
}
std::string Thinking(int index, const std::string& text) {
  return BlockStart(index, R"("thinking","thinking":"","signature":"")") +
         Delta(index, R"("thinking_delta","thinking":")" + text + "\"") +
         Delta(index, R"("signature_delta","signature":"fathom-msg_ID")") + BlockStop(index);
}
std::string Text(int index, const std::string& text) {
  return BlockStart(index, R"("text","text":"")") +
         Delta(index, R"("text_delta","text":")" + text + "\"") + BlockStop(index);
}
std::string Usage(int n_tokens) {
  return R"("usage":{"input_tokens":6,"cache_creation_input_tokens":0,)"
         R"("cache_read_input_tokens":4,"output_tokens":)" +
         std::to_string(n_tokens) + "}";
}
std::string Stop(const std::string& reason, int n_tokens, const std::string& sequence = "null") {
  return Sse("message_delta", R"(,"delta":{"stop_reason":")" + reason + R"(","stop_sequence":)" +
                                  sequence + "}," + Usage(n_tokens)) +
         Sse("message_stop", "");
}
std::string MessageJson(const std::string& content, const std::string& reason, int n_tokens,
                        const std::string& sequence = "null") {
  return R"({"id":"msg_ID","type":"message","role":"assistant","model":"m","content":[)" + content +
         R"(],"stop_reason":")" + reason + R"(","stop_sequence":)" + sequence + "," +
         Usage(n_tokens) + "}";
}

// The signature holds the hidden text, so that a client that sends the block back sends all of it.
TEST_F(MessagesFormatTest, ThinkingThatIsNotShown) {
  Prepare(R"(, "thinking": {"type": "adaptive", "display": "omitted"})");
  const Told told = Tell("Let me see.</think>Hello.", FinishReason::kStop);
  const std::string signature = MakeReasoningToken("Let me see.");
  const std::string block = R"("thinking","thinking":"","signature":"")";
  EXPECT_THAT(WithoutIds(told.stream),
              HasSubstr(BlockStart(0, block) +
                        Delta(0, R"("signature_delta","signature":")" + signature + "\"") +
                        BlockStop(0) + BlockStart(1, R"("text","text":"")")));
  const Json whole = Json::parse(told.whole.body, nullptr, false);
  EXPECT_EQ(whole["content"][0],
            Json({{"type", "thinking"}, {"thinking", ""}, {"signature", signature}}));
  EXPECT_EQ(whole["content"][1]["text"], "Hello.");
  Json body = {{"messages",
                {{{"role", "user"}, {"content", "Hi"}},
                 {{"role", "assistant"}, {"content", whole["content"]}},
                 {{"role", "user"}, {"content", "And?"}}}},
               {"tools", {{{"name", "f"}, {"input_schema", Json::object()}}}},
               {"thinking", {{"type", "enabled"}}}};
  const ApiResult<ApiCall> next = kMessages.prepare(body.dump(), model_);
  ASSERT_TRUE(next);
  EXPECT_THAT(*tokenizer_.Decode(next->requests[0].prompt),
              HasSubstr("<think>Let me see.</think>Hello."));
}

// An answer whose text comes in these pieces, a token each.
std::vector<StreamEvent> Pieces(const std::vector<std::string>& pieces, StreamEvent last) {
  std::vector<StreamEvent> events;
  for (const std::string& piece : pieces) events.push_back({.token = 5, .text = piece});
  events.push_back(std::move(last));
  return events;
}
// Returns the events of these pieces without tokens: cutting a text makes no more tokens.
std::vector<StreamEvent> Cut(const std::vector<std::string>& pieces, const StreamEvent& last) {
  std::vector<StreamEvent> events = Pieces(pieces, last);
  for (std::size_t i = 0; i < pieces.size(); ++i) events[i].token = StreamEvent::kNoToken;
  return events;
}
const StreamEvent kStopped = {.token = 1, .finish = FinishReason::kStop};
const StreamEvent kCut = {.token = 5, .finish = FinishReason::kLength};

TEST_F(MessagesFormatTest, Plain) {
  Prepare(R"(, "thinking": {"type": "disabled"})");
  Told told = Tell(Pieces({"Hé", "llo\n"}, kStopped));
  EXPECT_EQ(WithoutIds(told.stream),
            Start() + BlockStart(0, R"("text","text":"")") +
                Delta(0, R"("text_delta","text":"Hé")") + Delta(0, R"("text_delta","text":"llo")") +
                Delta(0, R"("text_delta","text":"\n")") + BlockStop(0) + Stop("end_turn", 3));
  EXPECT_EQ(told.whole.status, 200);
  EXPECT_EQ(WithoutIds(told.whole.body),
            MessageJson(R"({"type":"text","text":"Héllo\n"})", "end_turn", 3));
  told = Tell(Pieces({}, kStopped));
  EXPECT_EQ(WithoutIds(told.stream), Start() + Stop("end_turn", 1)) << "no empty block";
  EXPECT_EQ(WithoutIds(told.whole.body), MessageJson("", "end_turn", 1));
}

TEST_F(MessagesFormatTest, ThinkingAndText) {
  Prepare("");
  Told told = Tell(Pieces({"Let me", " see.</thi", "nk>It", " is."}, kStopped));
  EXPECT_EQ(WithoutIds(told.stream),
            Start() + BlockStart(0, R"("thinking","thinking":"","signature":"")") +
                Delta(0, R"("thinking_delta","thinking":"Let me")") +
                Delta(0, R"("thinking_delta","thinking":" see.")") +
                Delta(0, R"("signature_delta","signature":"fathom-msg_ID")") + BlockStop(0) +
                BlockStart(1, R"("text","text":"")") + Delta(1, R"("text_delta","text":"It")") +
                Delta(1, R"("text_delta","text":" is.")") + BlockStop(1) + Stop("end_turn", 5));
  EXPECT_EQ(
      WithoutIds(told.whole.body),
      MessageJson(R"({"type":"thinking","thinking":"Let me see.","signature":"fathom-msg_ID"},)"
                  R"({"type":"text","text":"It is."})",
                  "end_turn", 5));
  told = Tell(Pieces({"</think>Hi"}, kStopped));
  EXPECT_EQ(WithoutIds(told.stream), Start() + Text(0, "Hi") + Stop("end_turn", 2))
      << "nothing was thought";
}

TEST_F(MessagesFormatTest, ParallelCalls) {
  Prepare("");
  const Told told = Tell(Pieces({"r</think>Look:" + std::string(kTwoCalls)}, kStopped));
  EXPECT_EQ(
      WithoutIds(told.stream),
      Start() + Thinking(0, "r") + Text(1, "Look:") +
          BlockStart(2, R"("tool_use","id":"toolu_ID","name":"f","input":{})") +
          Delta(2,
                R"("input_json_delta","partial_json":"{\"a\": \"x\\\"y\", \"n\": [1,\n 2.50]}")") +
          BlockStop(2) + BlockStart(3, R"("tool_use","id":"toolu_ID","name":"f","input":{})") +
          Delta(3, R"("input_json_delta","partial_json":"{}")") + BlockStop(3) +
          Stop("tool_use", 1));
  EXPECT_EQ(WithoutIds(told.whole.body),
            MessageJson(R"({"type":"thinking","thinking":"r","signature":"fathom-msg_ID"},)"
                        R"({"type":"text","text":"Look:"},)"
                        R"({"type":"tool_use","id":"toolu_ID","name":"f",)"
                        R"("input":{"a": "x\"y", "n": [1,  2.50]}},)"
                        R"({"type":"tool_use","id":"toolu_ID","name":"f","input":{}})",
                        "tool_use", 1));
  const Json content = ReadStream(told.stream)["content"];
  EXPECT_NE(content[2]["id"], content[3]["id"]);
}

TEST_F(MessagesFormatTest, ACallPieceByPiece) {
  Prepare(R"(, "thinking": {"type": "disabled"})");
  const std::string call =
      "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
      "<｜DSML｜parameter name=\"a\" string=\"true\">";
  const Told told = Tell(Pieces(
      {call, "ab", "c</｜DSML｜par", "ameter>\n</｜DSML｜invoke>\n", "</｜DSML｜tool_calls>"},
      kStopped));
  EXPECT_EQ(WithoutIds(told.stream),
            Start() + BlockStart(0, R"("tool_use","id":"toolu_ID","name":"f","input":{})") +
                Delta(0, R"("input_json_delta","partial_json":"{\"a\": \"")") +
                Delta(0, R"("input_json_delta","partial_json":"ab")") +
                Delta(0, R"("input_json_delta","partial_json":"c")") +
                Delta(0, R"("input_json_delta","partial_json":"\"}")") + BlockStop(0) +
                Stop("tool_use", 5))
      << "the answer ends with the block";
}

TEST_F(MessagesFormatTest, WithoutParallelCalls) {
  Prepare(R"(, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})");
  const Told told = Tell("</think>" + std::string(kTwoCalls), FinishReason::kStop);
  const Json message = ReadStream(told.stream);
  EXPECT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message, Json::parse(told.whole.body, nullptr, false));
}

TEST_F(MessagesFormatTest, CountsTheTokensUpToTheEndOfTheCalls) {
  Prepare("");
  const std::string answer = "r</think>Look:" + std::string(kTwoCalls);
  const std::size_t n_tokens = Tokens(answer).size();
  for (const std::string behind : {"", "\n", "\n\nAnd so on, and so on."}) {
    const Told told = Tell(answer + behind, FinishReason::kStop);
    const Json message = ReadStream(told.stream);
    EXPECT_EQ(message["usage"]["output_tokens"], n_tokens) << behind;
    EXPECT_EQ(message, Json::parse(told.whole.body, nullptr, false));
  }
}

// A general JSON library would turn the numbers into 1e+23 and an error.
TEST_F(MessagesFormatTest, NumbersKeepTheirDigits) {
  Prepare("");
  const Told told = Tell(
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
      "<｜DSML｜parameter name=\"n\" string=\"false\">[100000000000000000000001, 1e999]"
      "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
      FinishReason::kStop);
  EXPECT_THAT(told.whole.body, HasSubstr(R"("input":{"n": [100000000000000000000001, 1e999]})"));
}

TEST_F(MessagesFormatTest, StopSequence) {
  Prepare(R"(, "stop_sequences": ["x", "\"END"])");
  const Told told = Tell(Pieces(
      {"r</think>Hi "}, {.token = 5, .finish = FinishReason::kStopString, .stop_string = 1}));
  EXPECT_EQ(WithoutIds(told.stream),
            Start() + Thinking(0, "r") + Text(1, "Hi ") + Stop("stop_sequence", 2, R"("\"END")"));
  EXPECT_EQ(WithoutIds(told.whole.body),
            MessageJson(R"({"type":"thinking","thinking":"r","signature":"fathom-msg_ID"},)"
                        R"({"type":"text","text":"Hi "})",
                        "stop_sequence", 2, R"("\"END")"));
  const Told call = Tell(Pieces({"</think>" + std::string(kTwoCalls)},
                                {.finish = FinishReason::kStopString, .stop_string = 0}));
  EXPECT_EQ(ReadStream(call.stream)["stop_reason"], "tool_use") << "the calls are to be run";
}

TEST_F(MessagesFormatTest, MaxTokensInEachState) {
  Prepare(R"(, "max_tokens": 1)");
  EXPECT_EQ(WithoutIds(Tell(Pieces({"Let"}, kCut)).stream),
            Start() + Thinking(0, "Let") + Stop("max_tokens", 2));
  EXPECT_EQ(WithoutIds(Tell(Pieces({"r</think>"}, kCut)).stream),
            Start() + Thinking(0, "r") + Stop("max_tokens", 2));
  EXPECT_EQ(WithoutIds(Tell(Pieces({"r</think>Hi"}, kCut)).stream),
            Start() + Thinking(0, "r") + Text(1, "Hi") + Stop("max_tokens", 2));
  const std::string call =
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
      "<｜DSML｜parameter name=\"a\" string=\"true\">";
  EXPECT_EQ(WithoutIds(Tell(Pieces({call + "b"}, kCut)).stream),
            Start() + BlockStart(0, R"("tool_use","id":"toolu_ID","name":"f","input":{})") +
                Delta(0, R"("input_json_delta","partial_json":"{\"a\": \"b")") + BlockStop(0) +
                Stop("max_tokens", 2));
  const std::string calls = "</think>" + std::string(kTwoCalls);
  const std::string open = calls.substr(0, calls.rfind("</"));
  EXPECT_EQ(ReadStream(Tell(Pieces({open}, kCut)).stream)["stop_reason"], "max_tokens");
  EXPECT_EQ(ReadStream(Tell(Pieces({calls}, kCut)).stream)["stop_reason"], "tool_use")
      << "the answer was whole before it was cut";
  EXPECT_EQ(WithoutIds(Tell(Pieces({}, kCut)).stream), Start() + Stop("max_tokens", 1));
}

// Claude Code asks for the rest of an answer that max_tokens cut, and there is no room for it.
TEST_F(MessagesFormatTest, AFullContextIsNoLimitOfTheRequest) {
  const std::string full = "model_context_window_exceeded";
  for (const auto& [fields, reason] : {std::pair<std::string, std::string>{"", full},
                                       {R"(, "max_tokens": 128000)", full},
                                       {R"(, "max_tokens": 3)", full},
                                       {R"(, "max_tokens": 2)", "max_tokens"}}) {
    Prepare(fields);
    const Told told = Tell(Pieces({"</think>Hi"}, kCut));
    EXPECT_EQ(WithoutIds(told.stream), Start() + Text(0, "Hi") + Stop(reason, 2)) << fields;
    EXPECT_EQ(WithoutIds(told.whole.body), MessageJson(R"({"type":"text","text":"Hi"})", reason, 2))
        << fields;
  }
  Prepare(R"(, "max_tokens": 128000)");
  const Told nothing = Tell({{.finish = FinishReason::kLength}});
  EXPECT_EQ(WithoutIds(nothing.stream), Start() + Stop(full, 0)) << "the prompt fills the context";
  const Told calls = Tell(Pieces({"</think>" + std::string(kTwoCalls)}, kCut));
  EXPECT_EQ(ReadStream(calls.stream)["stop_reason"], "tool_use") << "the calls are to be run";
}

TEST_F(MessagesFormatTest, AnErrorInTheMiddle) {
  Prepare("");
  const Told told = Tell(Pieces(
      {"Let"}, {.finish = FinishReason::kError, .error = Error{ErrorCode::kIo, "NaN logits"}}));
  EXPECT_EQ(WithoutIds(told.stream),
            Start() + BlockStart(0, R"("thinking","thinking":"","signature":"")") +
                Delta(0, R"("thinking_delta","thinking":"Let")") +
                Sse("error", R"(,"error":{"type":"api_error","message":"NaN logits"})"));
  EXPECT_EQ(told.whole.status, 500);
  EXPECT_EQ(told.whole.body,
            R"({"type":"error","error":{"type":"api_error","message":"NaN logits"}})");
  const Told stopped = Tell(Pieces({}, {.finish = FinishReason::kCancelled}));
  EXPECT_EQ(stopped.whole.status, 529);
}

// An input is an object: it has the finished parameters of a call that was cut, and a strict tool
// is not called without those that it requires.
TEST_F(MessagesFormatTest, ACutCallHasItsFinishedParameters) {
  const std::string call =
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
      "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"b\" string=\"true\">rm -rf /tmp/bui";
  for (const bool strict : {false, true}) {
    for (const std::string required : {"a", "b"}) {
      Prepare(R"(, "max_tokens": 1)");
      call_.answers.parser.tools = *ToolSchemas::Make(std::vector<ToolSpec>{
          {.name = "f",
           .function_json =
               R"({"name":"f","parameters":{"properties":{"a":{"type":"string"},"b":{"type":)"
               R"("string"}},"required":[")" +
               required + "\"]}}",
           .strict = strict}});
      const Told told = Tell(Pieces({call}, kCut));
      const Json whole = Json::parse(told.whole.body);
      EXPECT_EQ(whole["stop_reason"], "max_tokens");
      const bool is_left_out = strict && required == "b";
      ASSERT_EQ(whole["content"].size(), is_left_out ? 0U : 1U) << whole;
      if (!is_left_out) {
        EXPECT_EQ(whole["content"][0]["input"], Json({{"a", "x"}}));
      }
      EXPECT_THAT(told.stream, ::testing::HasSubstr(R"(\"b\": \"rm -rf /tmp/bui")"));
      EXPECT_THAT(told.stream, ::testing::Not(::testing::HasSubstr(R"("partial_json":"\"})")));
    }
  }
}

// The parser does not interleave blocks, which no client would understand.
TEST_F(MessagesFormatTest, BlocksFollowOneAnother) {
  MessageBlocks blocks("s");
  std::string stream;
  for (const AnswerEvent& event :
       std::vector<AnswerEvent>{{.kind = Kind::kContentDelta, .text = "a"},
                                {.kind = Kind::kReasoningDelta, .text = "r"},
                                {.kind = Kind::kCallBegin, .call = 0, .id = "i0", .name = "f"},
                                {.kind = Kind::kCallBegin, .call = 1, .id = "i1", .name = "g"},
                                {.kind = Kind::kArgumentsDelta, .call = 1, .text = "{}"},
                                {.kind = Kind::kArgumentsDelta, .call = 0, .text = "{"},
                                {.kind = Kind::kContentDelta, .text = "b"},
                                {.kind = Kind::kArgumentsDelta, .call = 0, .text = "}"},
                                {.kind = Kind::kCallEnd, .call = 0},
                                {.kind = Kind::kCallEnd, .call = 1},
                                {.kind = Kind::kFinish}}) {
    blocks.Add(event, &stream);
  }
  blocks.End(&stream);
  EXPECT_EQ(ReadStream(Start() + stream + Stop("tool_use", 0))["content"].dump(),
            R"([{"type":"text","text":"a"},{"type":"thinking","thinking":"r","signature":"s"},)"
            R"({"type":"tool_use","id":"i0","name":"f","input":{}},)"
            R"({"type":"tool_use","id":"i1","name":"g","input":{}},{"type":"text","text":"b"}])");
}

TEST_F(MessagesFormatTest, CountTokens) {
  EXPECT_EQ(WriteJson({{"input_tokens", 12}}), R"({"input_tokens":12})");
}

// However the text arrives, the stream tells the same message as the whole response.
TEST_F(MessagesFormatTest, EveryCutTellsTheSame) {
  const auto path = testing::SharedData("data/encoding/extra/robust_parse_cases.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  int n_told = 0;
  for (const Json& golden : Json::parse(testing::ReadFile(*path), nullptr, false)) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    Prepare("");
    call_.answers.parser.starts_in_reasoning = golden["thinking_mode"] == "thinking";
    call_.answers.parser.tools = testing::ReadTools(golden);
    const StreamEvent& last = golden["ended_by"] == "length" ? kCut : kStopped;
    const std::string text = golden["text"].get<std::string>();
    const std::string whole = Tell(Cut({text}, last)).whole.body;
    const Json message = Json::parse(whole, nullptr, false);
    ASSERT_TRUE(message.is_object()) << whole;
    std::vector<std::vector<std::string>> ways(1);
    for (const char c : text) ways[0].emplace_back(1, c);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      ways.push_back({text.substr(0, cut), text.substr(cut)});
    }
    for (const std::vector<std::string>& pieces : ways) {
      const Told told = Tell(Cut(pieces, last));
      ASSERT_EQ(told.whole.body, whole) << pieces[0];
      // A stream tells all of a call that was cut.
      if (golden["name"] != "R20_truncated_value_length") {
        ASSERT_EQ(ReadStream(told.stream), message) << pieces[0];
      }
      ++n_told;
    }
  }
  EXPECT_GT(n_told, 1000);
}

}  // namespace
}  // namespace fathom::api
