
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "api/common/reasoning_token.h"
#include "tests/api/responses/responses_fixture.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using testing::Json;

constexpr const char* kTools =
    R"("tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "files", "description": "", "tools": [{"type": "function", "name": "read"}]}])";

std::string Parameter(const std::string& name, const std::string& value) {
  return "<｜DSML｜parameter name=\"" + name + "\" string=\"true\">" + value +
         "</｜DSML｜parameter>\n";
}
std::string Invoke(const std::string& tool, const std::string& parameters) {
  return "<｜DSML｜invoke name=\"" + tool + "\">\n" + parameters + "</｜DSML｜invoke>\n";
}
std::string Calls(const std::string& invokes) {
  return "\n\n<｜DSML｜tool_calls>\n" + invokes + "</｜DSML｜tool_calls>";
}

class ResponsesFormatTest : public testing::ResponsesTest {
 protected:
  ApiCall Call(const std::string& fields) const {
    return Prepare(R"({"model": "m", "input": "Hi", )" + fields + "}");
  }

  // One line per event, without the type's "response." and the number; of a response only what
  // differs from event to event; ids that count from 1 in place of those that nobody can guess.
  static std::string Lines(const std::vector<Json>& events) {
    std::string lines;
    for (Json event : events) {
      std::string type = event["type"].get<std::string>();
      EXPECT_TRUE(type.starts_with("response."));
      event.erase("type");
      event.erase("sequence_number");
      if (event.contains("response")) {
        const Json& response = event["response"];
        event = {{"status", response["status"]},
                 {"incomplete", response["incomplete_details"]},
                 {"error", response["error"]}};
      }
      lines += type.substr(9) + " " + event.dump() + "\n";
    }
    return WithPlainIds(lines);
  }

  static std::string WithPlainIds(std::string text) {
    std::map<std::string, std::string> names;
    for (const std::string prefix : {"resp_", "rs_", "msg_", "fc_", "ctc_", "call_"}) {
      const std::string quoted = "\"" + prefix;
      for (std::size_t at = text.find(quoted); at != std::string::npos;
           at = text.find(quoted, at + 1)) {
        const std::size_t begin = at + 1;
        const std::size_t end = text.find('"', begin);
        const std::string id = text.substr(begin, end - begin);
        if (id.size() < 24) continue;
        if (!names.count(id)) names[id] = prefix + std::to_string(names.size() + 1);
        text.replace(begin, end - begin, names[id]);
      }
    }
    return text;
  }
};

constexpr const char* kBegun = R"(created {"status":"in_progress","incomplete":null,"error":null}
in_progress {"status":"in_progress","incomplete":null,"error":null}
)";

TEST_F(ResponsesFormatTest, PlainTextByteForByte) {
  const std::string response =
      R"({"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress",)"
      R"("background":false,"error":null,"incomplete_details":null,"model":"m","output":[],)"
      R"("temperature":1.0,"top_logprobs":0,"top_p":1.0,"usage":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,)"
      R"("metadata":{},"parallel_tool_calls":true,"previous_response_id":null,)"
      R"("prompt_cache_key":null,"reasoning":{"effort":"none","summary":null},)"
      R"("safety_identifier":null,"service_tier":"default","store":true,)"
      R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],)"
      R"("truncation":"disabled","user":null})";
  const std::string part =
      R"({"type":"output_text","text":"Once upon","annotations":[],"logprobs":[]})";
  const std::string item = R"({"id":"msg_2","type":"message","status":"completed",)"
                           R"("role":"assistant","content":[)" +
                           part + "]}";
  std::string finished = response;
  const auto replace = [&finished](std::string_view from, std::string_view to) {
    finished.replace(finished.find(from), from.size(), to);
  };
  replace("in_progress", "completed");
  replace(R"("output":[])", R"("output":[)" + item + "]");
  replace(R"("usage":null)",
          R"("usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":10,)"
          R"("cache_write_tokens":0},"output_tokens":3,)"
          R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":33})");
  std::string expected;
  int number = 0;
  const auto add = [&](const std::string& type, const std::string& fields) {
    expected += "event: " + type + "\ndata: {\"type\":\"" + type +
                "\",\"sequence_number\":" + std::to_string(number++) + "," + fields + "}\n\n";
  };
  const std::string of_part = R"("item_id":"msg_2","output_index":0,"content_index":0,)";
  add("response.created", R"("response":)" + response);
  add("response.in_progress", R"("response":)" + response);
  add("response.output_item.added",
      R"("output_index":0,"item":{"id":"msg_2","type":"message","status":"in_progress",)"
      R"("role":"assistant","content":[]})");
  add("response.content_part.added",
      of_part + R"("part":{"type":"output_text","text":"","annotations":[],"logprobs":[]})");
  add("response.output_text.delta", of_part + R"("delta":"Once","logprobs":[])");
  add("response.output_text.delta", of_part + R"("delta":" upon","logprobs":[])");
  add("response.output_text.done", of_part + R"("text":"Once upon","logprobs":[])");
  add("response.content_part.done", of_part + R"("part":)" + part);
  add("response.output_item.done", R"("output_index":0,"item":)" + item);
  add("response.completed", R"("response":)" + finished);

  const ApiCall call = Call(R"("reasoning": {"effort": "none"})");
  std::vector<StreamEvent> pieces = Pieces({"Once", " upon"});
  for (StreamEvent& piece : pieces) piece.token = 5;
  EXPECT_EQ(WithPlainIds(StreamText(call, pieces)), expected);
  EXPECT_EQ(WithPlainIds(Whole(call, pieces).dump()), finished);
}

// The events between the beginning and a message with the text "Once".
std::string ReasoningLines(const std::string& index) {
  const bool plain = index == "content_index";
  const std::string name = plain ? "reasoning_text" : "reasoning_summary_text";
  const std::string part = plain ? "content_part" : "reasoning_summary_part";
  const std::string type = plain ? "reasoning_text" : "summary_text";
  const std::string head = R"( {"item_id":"rs_1","output_index":0,")" + index + R"(":0,)";
  return part + ".added" + head + R"("part":{"type":")" + type + R"(","text":""}})" + "\n" + name +
         ".delta" + head + R"("delta":"So"})" + "\n" + name + ".delta" + head + R"("delta":"."})" +
         "\n" + name + ".done" + head + R"("text":"So."})" + "\n" + part + ".done" + head +
         R"("part":{"type":")" + type + R"(","text":"So."}})" + "\n";
}

constexpr const char* kMessage =
    R"(output_item.added {"output_index":1,"item":{"id":"msg_2","type":"message","status":"in_progress","role":"assistant","content":[]}}
content_part.added {"item_id":"msg_2","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
output_text.delta {"item_id":"msg_2","output_index":1,"content_index":0,"delta":"On","logprobs":[]}
output_text.delta {"item_id":"msg_2","output_index":1,"content_index":0,"delta":"ce","logprobs":[]}
output_text.done {"item_id":"msg_2","output_index":1,"content_index":0,"text":"Once","logprobs":[]}
content_part.done {"item_id":"msg_2","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Once","annotations":[],"logprobs":[]}}
output_item.done {"output_index":1,"item":{"id":"msg_2","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Once","annotations":[],"logprobs":[]}]}}
)";
constexpr const char* kCompleted =
    R"(completed {"status":"completed","incomplete":null,"error":null}
)";

TEST_F(ResponsesFormatTest, ReasoningAndText) {
  const auto events = Stream(Call(R"("stream": true)"), Pieces({"So", ".</think>On", "ce"}));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"in_progress","summary":[],"content":[]}}
)") + ReasoningLines("content_index") +
          R"(output_item.done {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"So."}]}}
)" + kMessage +
          kCompleted);
}

TEST_F(ResponsesFormatTest, ReasoningAsASummaryWithItsToken) {
  const auto events = Stream(
      Call(R"("reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"])"),
      Pieces({"So", ".</think>On", "ce"}));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"in_progress","summary":[]}}
)") + ReasoningLines("summary_index") +
          R"(output_item.done {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"completed","summary":[{"type":"summary_text","text":"So."}],"encrypted_content":")" +
          MakeReasoningToken("So.") + "\"}}\n" + kMessage + kCompleted);
}

TEST_F(ResponsesFormatTest, FunctionCall) {
  const auto events =
      Stream(Call(kTools), Pieces({"</think>", Calls(Invoke("f", Parameter("a", "x")))}));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_2","name":"f","arguments":""}}
function_call_arguments.delta {"item_id":"fc_1","output_index":0,"delta":"{\"a\": \"x\"}"}
function_call_arguments.done {"item_id":"fc_1","output_index":0,"name":"f","arguments":"{\"a\": \"x\"}"}
output_item.done {"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_2","name":"f","arguments":"{\"a\": \"x\"}"}}
)") + kCompleted);
}

TEST_F(ResponsesFormatTest, ParallelCallsOneOfANamespace) {
  const std::string invokes = Invoke("f", "") + Invoke("files__read", Parameter("path", "y"));
  const auto events = Stream(Call(kTools), Pieces({"</think>" + Calls(invokes)}));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_3","name":"f","arguments":""}}
function_call_arguments.delta {"item_id":"fc_1","output_index":0,"delta":"{}"}
function_call_arguments.done {"item_id":"fc_1","output_index":0,"name":"f","arguments":"{}"}
output_item.done {"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_3","name":"f","arguments":"{}"}}
output_item.added {"output_index":1,"item":{"id":"fc_2","type":"function_call","status":"in_progress","call_id":"call_4","name":"read","arguments":"","namespace":"files"}}
function_call_arguments.delta {"item_id":"fc_2","output_index":1,"delta":"{\"path\": \"y\"}"}
function_call_arguments.done {"item_id":"fc_2","output_index":1,"name":"read","arguments":"{\"path\": \"y\"}"}
output_item.done {"output_index":1,"item":{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_4","name":"read","arguments":"{\"path\": \"y\"}","namespace":"files"}}
)") + kCompleted);
}

TEST_F(ResponsesFormatTest, CustomToolGetsItsTextAndNoJson) {
  const std::string patch = "*** \"Begin\"\n+1";
  const auto events = Stream(
      Call(kTools), Pieces({"</think>", Calls(Invoke("apply_patch", Parameter("input", patch)))}));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"ctc_1","type":"custom_tool_call","status":"in_progress","call_id":"call_2","name":"apply_patch","input":""}}
custom_tool_call_input.delta {"item_id":"ctc_1","output_index":0,"delta":"*** \"Begin\"\n+1"}
custom_tool_call_input.done {"item_id":"ctc_1","output_index":0,"input":"*** \"Begin\"\n+1"}
output_item.done {"output_index":0,"item":{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"call_2","name":"apply_patch","input":"*** \"Begin\"\n+1"}}
)") + kCompleted);
}

// The input is told in pieces however the text is cut, and whatever the parameter is called.
TEST_F(ResponsesFormatTest, TheInputOfACustomToolComesInPieces) {
  const auto deltas = [&](const std::vector<std::string>& pieces) {
    std::vector<std::string> told;
    std::string done;
    for (const Json& event : Stream(Call(kTools), Pieces(pieces))) {
      if (event["type"] == "response.custom_tool_call_input.delta") {
        told.push_back(event["delta"].get<std::string>());
      } else if (event["type"] == "response.custom_tool_call_input.done") {
        done = event["input"].get<std::string>();
      }
    }
    EXPECT_EQ(std::accumulate(told.begin(), told.end(), std::string()), done);
    return told;
  };
  const std::string begin =
      "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"apply_patch\">\n";
  const std::string end = "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  const auto open = [](const std::string& name) {
    return "<｜DSML｜parameter name=\"" + name + "\" string=\"true\">";
  };
  EXPECT_THAT(deltas({begin, open("input"), "a \"b\"", "\n", "\\c\x01", "d", end}),
              ElementsAre("a \"b\"", "\n\\c\x01", "d"));
  EXPECT_THAT(deltas({begin, open("patch"), "a", "b", end}), ElementsAre("ab"));
  EXPECT_THAT(deltas({begin, open("input"), end}), ElementsAre());
  // The last of two values counts, and there is but one piece.
  EXPECT_THAT(deltas({begin, R"({"input": "a", "input": "b"})",
                      "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}),
              ElementsAre("b"));
}

constexpr const char* kIncomplete =
    R"(incomplete {"status":"incomplete","incomplete":{"reason":"max_output_tokens"},"error":null}
)";

TEST_F(ResponsesFormatTest, CutOffInTheReasoning) {
  const ApiCall call = Call(R"("max_output_tokens": 7)");
  const auto pieces = Pieces({"So", "."}, FinishReason::kLength);
  EXPECT_EQ(
      Lines(Stream(call, pieces)),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"in_progress","summary":[],"content":[]}}
)") + ReasoningLines("content_index") +
          R"(output_item.done {"output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"incomplete","summary":[],"content":[{"type":"reasoning_text","text":"So."}]}}
)" + kIncomplete);
  EXPECT_EQ(Whole(call, pieces)["max_output_tokens"], 7);
}

TEST_F(ResponsesFormatTest, CutOffInTheTextOrBeforeAnything) {
  const auto events = Stream(Call(kTools), Pieces({"So</think>On"}, FinishReason::kLength));
  const Json& output = events.back()["response"]["output"];
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(output[0]["status"], "completed");
  EXPECT_EQ(output[1]["status"], "incomplete");
  EXPECT_EQ(output[1]["content"][0]["text"], "On");
  EXPECT_EQ(Lines(Stream(Call(kTools), Pieces({}, FinishReason::kLength))),
            std::string(kBegun) + kIncomplete);
}

// Codex would run half a command.
TEST_F(ResponsesFormatTest, ACallThatWasCutOffIsNeverDone) {
  const std::string call = Calls(Invoke("f", Parameter("a", "x")));
  const std::string cut = "</think>" + call.substr(0, call.find("</"));
  for (const FinishReason finish : {FinishReason::kLength, FinishReason::kError}) {
    const auto events = Stream(Call(kTools), Pieces({cut}, finish));
    const bool failed = finish == FinishReason::kError;
    EXPECT_EQ(events.back()["type"], failed ? "response.failed" : "response.incomplete");
    for (const Json& event : events) {
      EXPECT_FALSE(event["type"].get<std::string>().ends_with(".done")) << event;
    }
    const Json& item = events.back()["response"]["output"][0];
    EXPECT_EQ(item["status"], "incomplete");
    EXPECT_EQ(item["arguments"], R"({"a": "x)");
  }
  // The call before the one that was cut off is complete.
  const std::string second = Invoke("f", Parameter("a", "x"));
  const auto events =
      Stream(Call(kTools), Pieces({"</think>\n\n<｜DSML｜tool_calls>\n" + Invoke("f", "") +
                                   second.substr(0, second.find("</"))},
                                  FinishReason::kLength));
  int n_done = 0;
  for (const Json& event : events) n_done += event["type"] == "response.output_item.done" ? 1 : 0;
  EXPECT_EQ(n_done, 1);
  EXPECT_EQ(events.back()["response"]["output"].size(), 2u);
}

TEST_F(ResponsesFormatTest, TellsTheSamplingThatIsUsed) {
  const auto told = [&](const char* field) {
    return Whole(Call(R"("reasoning": {"effort": "high"}, "temperature": 0.3, "top_p": 0.5,
                         "top_logprobs": 2, "include": ["message.output_text.logprobs"])"),
                 Pieces({"</think>a"}))[field];
  };
  EXPECT_EQ(told("temperature"), 0.3);
  EXPECT_EQ(told("top_p"), 0.5);
  EXPECT_EQ(told("top_logprobs"), 2);
  model_.defaults.like_hosted = true;
  EXPECT_EQ(told("temperature"), 1.0);
  EXPECT_EQ(told("top_p"), 1.0);
}

// Codex looks for the code.
TEST_F(ResponsesFormatTest, APromptThatIsTooLongIsToldByTheStream) {
  model_.limits.max_context = 10;
  const std::string body =
      R"({"model": "m", "store": false, "stream": true, "top_p": 0.5, "input": )"
      R"("One day a little girl went to the park with her big dog."})";
  const ApiCall call = Prepare(body);
  ASSERT_TRUE(call.refusal);
  EXPECT_EQ(call.refusal->status, 400);
  EXPECT_EQ(call.refusal->param, "input");
  const ApiAnswer answer(call, model_, 1700000000, testing::CountingBits());
  std::string out;
  answer.call().api->make_format()->Fail(answer, *call.refusal, &out);
  const std::vector<Json> events = testing::ReadEvents(out);
  EXPECT_EQ(Lines(events), R"(created {"status":"in_progress","incomplete":null,"error":null})"
                           "\n"
                           R"(failed {"status":"failed","incomplete":null,"error":{"code":)"
                           R"("context_length_exceeded","message":")" +
                               call.refusal->message + "\"}}\n");
  ASSERT_EQ(events.size(), 2U);
  for (const Json& event : events) {
    EXPECT_EQ(event["response"]["model"], "m");
    EXPECT_EQ(event["response"]["store"], false);
    EXPECT_EQ(event["response"]["id"], events[0]["response"]["id"]);
    EXPECT_EQ(event["response"]["output"], Json::array());
    EXPECT_EQ(event["response"]["usage"], nullptr);
    EXPECT_EQ(event["response"]["top_p"], 0.5);
  }
  EXPECT_EQ(events[0]["sequence_number"], 0);
  EXPECT_EQ(events[1]["sequence_number"], 1);
  for (const char* whole : {R"("stream": false)", R"("stream": null)"}) {
    std::string other = body;
    other.replace(other.find(R"("stream": true)"), 14, whole);
    const ApiResult<ApiCall> refused = kResponses.prepare(other, model_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "context_length_exceeded");
  }
}

// Clients require the type and the path of an operation, from its beginning on.
TEST_F(ResponsesFormatTest, OperationsOfPatchesHaveTypeAndPath) {
  const std::string type = Parameter("type", "create_file");
  const std::string path = Parameter("path", "a.c");
  const std::string diff = Parameter("diff", "+1");
  const std::string begun = diff.substr(0, diff.find("</"));
  const auto operations = [&](const std::string& parameters, FinishReason finish) {
    std::string text = Calls(Invoke("apply_patch", parameters));
    if (finish == FinishReason::kLength) text.resize(text.find("</｜DSML｜invoke>"));
    const auto events =
        Stream(Call(R"("tools": [{"type": "apply_patch"}])"), Pieces({"</think>", text}, finish));
    Json found = Json::array();
    for (const Json& event : events) {
      if (event["type"] == "response.output_item.added")
        found.push_back(event["item"]["operation"]);
    }
    const Json& item = events.back()["response"]["output"].back();
    EXPECT_EQ(item["status"], finish == FinishReason::kLength ? "incomplete" : "completed");
    found.push_back(item["operation"]);
    return found;
  };
  const Json nothing = {{"type", "update_file"}, {"path", ""}, {"diff", ""}};
  const Json created = {{"type", "create_file"}, {"path", "a.c"}, {"diff", "+1"}};
  const Json started = {{"type", "create_file"}, {"path", "a.c"}, {"diff", ""}};
  const Json deleted = {{"type", "delete_file"}, {"path", "a.c"}};
  EXPECT_EQ(operations(type + path + diff, FinishReason::kStop), Json({nothing, created}));
  EXPECT_EQ(operations(Parameter("type", "delete_file") + path, FinishReason::kStop),
            Json({nothing, deleted}));
  EXPECT_EQ(operations(type + path + begun, FinishReason::kLength), Json({nothing, started}));
  EXPECT_EQ(operations(begun, FinishReason::kLength), Json({nothing, nothing}));
}

// The input of a custom tool that is cut has what the model wrote.
TEST_F(ResponsesFormatTest, ACutInputStaysCut) {
  const std::string call = Calls(Invoke("apply_patch", Parameter("input", "*** \"Begin\"\n+1")));
  const auto events = Stream(
      Call(kTools), Pieces({"</think>", call.substr(0, call.find("+1"))}, FinishReason::kLength));
  const Json& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item["input"], "*** \"Begin\"\n");
  EXPECT_EQ(item["status"], "incomplete");
}

TEST_F(ResponsesFormatTest, FailedInTheMiddle) {
  const auto events = Stream(Call(kTools), Pieces({"</think>On"}, FinishReason::kError));
  EXPECT_EQ(
      Lines(events),
      kBegun +
          std::string(
              R"(output_item.added {"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}
content_part.added {"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
output_text.delta {"item_id":"msg_1","output_index":0,"content_index":0,"delta":"On","logprobs":[]}
failed {"status":"failed","incomplete":null,"error":{"code":"server_error","message":"out of luck"}}
)"));
}

TEST_F(ResponsesFormatTest, Logprobs) {
  std::vector<StreamEvent> events = Events("So</think>Hi", FinishReason::kStop);
  for (StreamEvent& event : events) {
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = -0.5f}};
  }
  const ApiCall call = Call(R"("include": ["message.output_text.logprobs"])");
  EXPECT_EQ(call.requests[0].sampling.top_logprobs, 0);
  const Json response = Whole(call, events);
  const Json& logprobs = response["output"][1]["content"][0]["logprobs"];
  std::string text;
  for (const Json& entry : logprobs) {
    EXPECT_EQ(entry["logprob"], -0.5);
    text += entry["token"].get<std::string>();
  }
  EXPECT_EQ(text, "Hi");
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], Tokens("So").size());
}

// Returns the log probabilities of all deltas of the message. Checks that they equal those of its
// end, and that each delta has text or completes earlier ones.
Json JoinedLogprobs(const std::vector<Json>& events) {
  Json joined = Json::array();
  for (const Json& event : events) {
    if (event["type"] == "response.output_text.delta") {
      EXPECT_TRUE(event["delta"] != "" || !event["logprobs"].empty()) << event;
      for (const Json& entry : event["logprobs"]) joined.push_back(entry);
    } else if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["logprobs"], joined);
    }
  }
  return joined;
}

TEST_F(ResponsesFormatTest, LogprobsOfDeltas) {
  const std::string call = Calls(Invoke("f", Parameter("a", "x")));
  const std::string fields =
      std::string(kTools) + R"(, "include": ["message.output_text.logprobs"])";
  for (const std::string text :
       {"So</think>Once upon a time", "</think>É☺, né", "So</think>Look:\n\n", "</think>a <b> <｜",
        "</think>Once.<｜DSML｜tool", "So.</think>"}) {
    for (const std::string& behind : {std::string(), call}) {
      for (const std::size_t n_held : {0, 1, 3}) {
        SCOPED_TRACE(text + behind + std::to_string(n_held));
        std::vector<StreamEvent> events = Events(text + behind, FinishReason::kStop, n_held);
        float logprob = 0;
        for (StreamEvent& event : events) {
          logprob -= 0.25f;
          event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = logprob}};
        }
        const ApiCall asked = Call(fields);
        const Json response = Whole(asked, events);
        Json expected = Json::array();
        for (const Json& item : response["output"]) {
          if (item["type"] == "message") expected = item["content"][0]["logprobs"];
        }
        EXPECT_EQ(JoinedLogprobs(Stream(asked, events)), expected);
        EXPECT_EQ(expected.empty(), text == "So.</think>");
      }
    }
  }
}

// The end of the last token begins the stop string that ends the answer.
TEST_F(ResponsesFormatTest, LogprobsOfATokenThatIsToldInPart) {
  std::vector<StreamEvent> events = Events("</think>Once upon", FinishReason::kStopString);
  for (StreamEvent& event : events) {
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = -0.5f}};
  }
  std::string& text = events[events.size() - 2].text;
  const std::string token = text;
  ASSERT_GT(token.size(), 1u);
  text.pop_back();
  const auto told = Stream(Call(R"("include": ["message.output_text.logprobs"])"), events);
  const Json joined = JoinedLogprobs(told);
  ASSERT_FALSE(joined.empty());
  EXPECT_EQ(joined.back()["token"], token);
  EXPECT_EQ(joined, told.back()["response"]["output"][0]["content"][0]["logprobs"]);
}

TEST_F(ResponsesFormatTest, LogprobsComeWithTheirText) {
  std::vector<StreamEvent> events = Events("</think>Once upon a time", FinishReason::kStop);
  for (StreamEvent& event : events) {
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = -0.5f}};
  }
  int n_deltas = 0;
  for (const Json& event : Stream(Call(R"("include": ["message.output_text.logprobs"])"), events)) {
    if (event["type"] != "response.output_text.delta") continue;
    ++n_deltas;
    ASSERT_EQ(event["logprobs"].size(), 1u) << event;
    EXPECT_EQ(event["logprobs"][0]["token"], event["delta"]);
  }
  EXPECT_GT(n_deltas, 2);
  for (const Json& event : Stream(Call(kTools), Pieces({"</think>On", "ce"}))) {
    if (event.contains("logprobs")) {
      EXPECT_EQ(event["logprobs"], Json::array()) << "not asked for";
    }
  }
}

// The request that could have led to a golden answer. Tools of any name are those it calls.
std::string MakeBody(const Json& golden) {
  Json tools = Json::array();
  const auto add = [&tools](Json function) {
    if (function.is_string()) function = {{"name", function}};
    function["type"] = "function";
    tools.push_back(std::move(function));
  };
  for (const Json& schema : golden["tool_schemas"]) add(schema);
  if (golden["tool_schemas"].is_null()) {
    for (const Json& call : golden["expected"]["tool_calls"]) add(call["name"]);
  }
  // One of them is a custom tool now and then, so that those are cut everywhere as well.
  if (!tools.empty() && golden["text"].get<std::string>().size() % 2 == 0) {
    tools.back() = {{"type", "custom"}, {"name", tools.back()["name"]}};
  }
  Json body = {{"input", "Hi"}, {"tools", tools}};
  if (golden["thinking_mode"] != "thinking") body["reasoning"] = {{"effort", "none"}};
  return body.dump();
}

// Checks that the joined deltas of each part and item equal the text of its last event.
void ExpectDeltasJoin(const std::vector<Json>& events) {
  std::map<std::string, std::string> joined;
  for (const Json& event : events) {
    const std::string type = event["type"].get<std::string>();
    if (!event.contains("item_id")) continue;
    std::string& text = joined[event["item_id"].get<std::string>()];
    if (event.contains("delta")) {
      EXPECT_NE(event["delta"], "") << event;
      text += event["delta"].get<std::string>();
    }
    for (const char* key : {"text", "arguments", "input"}) {
      if (event.contains(key)) {
        EXPECT_EQ(text, event[key].get<std::string>()) << event;
      }
    }
  }
}

TEST_F(ResponsesFormatTest, HoweverAnAnswerIsCutTheResponseIsTheSame) {
  const auto path = testing::SharedData("data/encoding/extra/robust_parse_cases.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  int n_compared = 0;
  for (const Json& golden : Json::parse(testing::ReadFile(*path), nullptr, false)) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const ApiCall call = Prepare(MakeBody(golden));
    const std::string text = golden["text"].get<std::string>();
    const FinishReason finish =
        golden["ended_by"] == "length" ? FinishReason::kLength : FinishReason::kStop;
    const Json whole = Whole(call, Pieces({text}, finish));
    const auto compare = [&](const std::vector<std::string>& pieces) {
      const std::vector<Json> events = Stream(call, Pieces(pieces, finish));
      EXPECT_EQ(events.back()["response"], whole);
      ExpectDeltasJoin(events);
      ++n_compared;
    };
    for (std::size_t cut = 0; cut <= text.size() && !HasFailure(); ++cut) {
      compare({text.substr(0, cut), text.substr(cut)});
    }
    std::vector<std::string> bytes;
    for (const char byte : text) bytes.emplace_back(1, byte);
    compare(bytes);
  }
  EXPECT_GT(n_compared, 1000);
}

}  // namespace
}  // namespace fathom::api
