// Conversations of several requests: what is answered, sent back or stored, and asked again.
#include "api/responses/responses_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/responses/responses_fixture.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;
using testing::Json;

constexpr const char* kBegin = "<｜begin▁of▁sentence｜>";
constexpr const char* kAssistant = "<｜Assistant｜><think>";

// A request of Codex CLI, shortened.
constexpr const char* kCodex = R"({
  "model": "deepseek-v4-flash",
  "instructions": "You are a coding agent running in the Codex CLI.",
  "input": [
    {"type": "message", "role": "developer", "content": [
      {"type": "input_text", "text": "<permissions instructions>ask</permissions instructions>"}]},
    {"type": "message", "role": "user", "content": [
      {"type": "input_text", "text": "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"}]},
    {"type": "message", "role": "user", "content": [
      {"type": "input_text", "text": "Rename a to b."}]}
  ],
  "tools": [
    {"type": "function", "name": "shell", "description": "Runs a shell command.", "strict": false,
     "parameters": {"type": "object", "properties": {
        "command": {"type": "array", "items": {"type": "string"}},
        "workdir": {"type": "string"}, "timeout_ms": {"type": "number"}},
        "required": ["command"], "additionalProperties": false}},
    {"type": "custom", "name": "apply_patch", "description": "Edit files.",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin hunk+ end"}},
    {"type": "web_search", "external_web_access": false}
  ],
  "tool_choice": "auto", "parallel_tool_calls": true,
  "reasoning": {"effort": "medium", "summary": "auto"},
  "store": false, "stream": true, "include": ["reasoning.encrypted_content"],
  "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53", "text": {"verbosity": "medium"},
  "client_metadata": {"x-codex-installation-id": "1"}
})";

constexpr const char* kCodexAnswer =
    "I look first.</think>Let me see.\n\n<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"shell\">\n"
    "<｜DSML｜parameter name=\"command\" string=\"false\">[\"cat\", \"a.c\"]</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"apply_patch\">\n"
    "<｜DSML｜parameter name=\"input\" string=\"true\">*** Begin Patch\n-\"a\"\n+b\n"
    "*** End Patch</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

class ResponsesConversationTest : public testing::ResponsesTest {
 protected:
  ResponsesConversationTest() { model_.responses = &store_; }

  // Answers, and stores the answer as the server does.
  Json Answer(const ApiCall& call, const std::vector<StreamEvent>& events, bool streams = false) {
    ApiAnswer answer(call, model_, 1700000000, random_bits_);
    const std::unique_ptr<AnswerFormat> format = answer.call().api->make_format();
    std::string out;
    Feed(events, &answer, streams ? format.get() : nullptr, &out);
    StoreResponse(answer, store_);
    if (streams) return testing::ReadEvents(out).back()["response"];
    return Json::parse(WholeReply(answer).body, nullptr, false);
  }

  ResponseStore store_;
  RandomBits random_bits_ = testing::CountingBits();
};

// The model's text is in the next prompt as it was written, so that the prefix is found in the
// cache.
TEST_F(ResponsesConversationTest, TwoTurnsOfCodex) {
  const ApiCall first = Prepare(kCodex);
  const std::string prompt = PromptFrom(first);
  EXPECT_THAT(prompt, HasSubstr("running in the Codex CLI.\n\n## Tools"));
  EXPECT_THAT(prompt, HasSubstr("<｜User｜><permissions instructions>ask</permissions instructions>"
                                "\n\n<environment_context>"));
  EXPECT_THAT(prompt, HasSubstr("\"name\": \"shell\", \"description\": \"Runs a shell command.\", "
                                "\"parameters\": {\"type\": \"object\""));
  EXPECT_THAT(prompt, HasSubstr("start: begin hunk+ end"));
  EXPECT_THAT(prompt, HasSubstr("</environment_context>\n\nRename a to b.<｜Assistant｜><think>"));

  // Codex takes each item from its output_item.done, and leaves out the ids and raw reasoning.
  Json body = Json::parse(kCodex);
  for (const Json& event : Stream(first, Pieces({kCodexAnswer}))) {
    if (event["type"] != "response.output_item.done") continue;
    Json item = event["item"];
    item.erase("id");
    item.erase("summary");
    body["input"].push_back(item);
    if (!item.contains("call_id")) continue;
    const std::string kind = item["type"].get<std::string>();
    body["input"].push_back(
        {{"type", kind + "_output"}, {"call_id", item["call_id"]}, {"output", "out of " + kind}});
  }
  ASSERT_EQ(body["input"].size(), 3u + 4u + 2u);
  // Outputs stand behind all calls of their turn.
  std::swap(body["input"][6], body["input"][7]);
  const std::string next = PromptFrom(Prepare(body.dump()));
  EXPECT_EQ(next, prompt + kCodexAnswer +
                      "<｜end▁of▁sentence｜><｜User｜><tool_result>out of function_call"
                      "</tool_result>\n\n<tool_result>out of custom_tool_call</tool_result>" +
                      kAssistant);
  EXPECT_EQ(store_.bytes(), 0u) << "store: false";
}

TEST_F(ResponsesConversationTest, OpenAiPythonGoesOnByTheIdOfTheResponse) {
  const ApiCall first = Prepare(R"({"model": "m", "input": "Hi", "instructions": "Be brief.",
      "tools": [{"type": "function", "name": "f", "parameters": {}}]})");
  const Json one = Answer(first, Pieces({"r</think>a\n\n<｜DSML｜tool_calls>\n"
                                         "<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n"
                                         "</｜DSML｜tool_calls>"}));
  const std::string id = one["id"].get<std::string>();
  EXPECT_EQ(store_.FindResponse(id), one.dump());

  const std::string output = Json({{"type", "function_call_output"},
                                   {"call_id", one["output"][2]["call_id"]},
                                   {"output", "5"}})
                                 .dump();
  const ApiCall second = Prepare(R"({"input": [)" + output + R"(], "previous_response_id": ")" +
                                 id + R"(", "instructions": "Shout."})");
  const std::string all = std::string("<｜User｜>Hi<｜Assistant｜></think>a\n\n") +
                          "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n"
                          "</｜DSML｜tool_calls><｜end▁of▁sentence｜><｜User｜>"
                          "<tool_result>5</tool_result>";
  EXPECT_EQ(PromptFrom(second), kBegin + ("Shout." + all) + kAssistant)
      << "instructions are not carried over";
  const Json two = Answer(second, Pieces({"s</think>b"}), true);
  EXPECT_EQ(two["previous_response_id"], id);

  // The second knows all of the first, which may be gone.
  EXPECT_TRUE(store_.Remove(id));
  const ApiCall third =
      Prepare(R"({"input": "And?", "previous_response_id": )" + two["id"].dump() + "}");
  EXPECT_EQ(PromptFrom(third), kBegin + all + "<｜Assistant｜></think>b<｜end▁of▁sentence｜>" +
                                   "<｜User｜>And?" + kAssistant);
  // An item alone.
  const ApiCall reference =
      Prepare(R"({"input": [{"role": "user", "content": "Hi"},
      {"type": "item_reference", "id": )" +
              two["output"][1]["id"].dump() + R"(}, {"role": "user", "content": "Why?"}]})");
  EXPECT_THAT(PromptFrom(reference), HasSubstr("b<｜end▁of▁sentence｜><｜User｜>Why?"));
}

TEST_F(ResponsesConversationTest, StoredIsWhatWasSentHoweverItWasSent) {
  for (const bool streams : {false, true}) {
    const Json sent = Answer(Prepare(R"({"input": "Hi"})"), Pieces({"r</think>", "b"}), streams);
    EXPECT_EQ(store_.FindResponse(sent["id"].get<std::string>()), sent.dump());
  }
}

TEST_F(ResponsesConversationTest, WhatIsNotStored) {
  Answer(Prepare(R"({"input": "Hi", "store": false})"), Pieces({"r"}));
  Answer(Prepare(R"({"input": "Hi"})"), Pieces({"r"}, FinishReason::kError));
  const ApiCall chat =
      *kChatCompletions.prepare(R"({"messages": [{"role": "user", "content": ""}]})", model_);
  Answer(chat, Pieces({"r"}));
  EXPECT_EQ(store_.bytes(), 0u);
  ApiAnswer unfinished(chat, model_, 0, random_bits_);
  const ApiCall call = Prepare(R"({"input": "Hi"})");
  StoreResponse(ApiAnswer(call, model_, 0, random_bits_), store_);
  EXPECT_EQ(store_.bytes(), 0u) << "it has not ended";
  Answer(call, Pieces({"r"}, FinishReason::kLength));
  EXPECT_GT(store_.bytes(), 0u);
}

TEST_F(ResponsesConversationTest, ErrorsNameTheFieldsOfThisApi) {
  const auto param_of = [&](const std::string& body) {
    const ApiResult<ApiCall> call = kResponses.prepare(body, model_);
    return call ? "accepted" : call.error().param;
  };
  EXPECT_EQ(param_of(R"({"input": "", "reasoning": {"effort": "enormous"}})"), "reasoning.effort");
  EXPECT_EQ(param_of(R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})"),
            "input[0].content[0].type");
  EXPECT_EQ(param_of(R"({"input": "", "previous_response_id": "resp_0"})"), "previous_response_id");
  EXPECT_EQ(param_of(R"({"input": "", "text": {"format": {"type": "json_schema"}}})"),
            "text.format.schema");
  model_.limits.max_context = 3;
  EXPECT_EQ(param_of(R"({"input": "a b c d e f g"})"), "input");
}

}  // namespace
}  // namespace fathom::api
