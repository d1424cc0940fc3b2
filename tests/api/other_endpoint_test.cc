// Bodies at the path of another API.
#include <gtest/gtest.h>

#include <string>

#include "api/anthropic/messages_api.h"
#include "api/ollama/ollama_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

class OtherEndpointTest : public testing::ApiModelTest {
 protected:
  std::string ErrorFrom(const Api& api, const std::string& body) const {
    const ApiResult<ApiCall> call = api.prepare(body, model_);
    return call ? "accepted" : call.error().message;
  }
};

TEST_F(OtherEndpointTest, TheErrorNamesThePath) {
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  const std::string input = R"({"input": [{"role": "user", "content": "Hi"}]})";
  const std::string prompt = R"({"prompt": "Hi"})";
  const std::string for_chat =
      "messages: this is a body for POST /v1/chat/completions (or /v1/messages, with Anthropic's "
      "blocks); this path reads ";
  const std::string for_responses =
      "input: this is a body for POST /v1/responses; this path reads ";
  const std::string for_completions =
      "prompt: this is a body for POST /v1/completions; this path reads ";
  EXPECT_EQ(ErrorFrom(kChatCompletions, input), for_responses + "messages");
  EXPECT_EQ(ErrorFrom(kChatCompletions, prompt), for_completions + "messages");
  EXPECT_EQ(ErrorFrom(kMessages, input), for_responses + "messages");
  EXPECT_EQ(ErrorFrom(kMessages, prompt), for_completions + "messages");
  EXPECT_EQ(ErrorFrom(kResponses, messages), for_chat + "input");
  EXPECT_EQ(ErrorFrom(kResponses, prompt), for_completions + "input");
  EXPECT_EQ(ErrorFrom(kCompletions, messages), for_chat + "prompt");
  EXPECT_EQ(ErrorFrom(kCompletions, input), for_responses + "prompt");
}

TEST_F(OtherEndpointTest, ClientsOfOllamaReadItsPaths) {
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  const std::string input = R"({"input": "Hi"})";
  const std::string for_responses =
      "input: this is a body for POST /v1/responses; this path reads ";
  EXPECT_EQ(ErrorFrom(kOllamaChat, R"({"model": "fairy", "prompt": "Hi"})"),
            "prompt: this is a body for POST /api/generate; this path reads messages");
  EXPECT_EQ(ErrorFrom(kOllamaChat, input), for_responses + "messages");
  EXPECT_EQ(ErrorFrom(kOllamaGenerate, messages),
            "messages: this is a body for POST /api/chat; this path reads prompt");
  EXPECT_EQ(ErrorFrom(kOllamaGenerate, input), for_responses + "prompt");
  EXPECT_EQ(ErrorFrom(kOllamaGenerate, R"({"model": "fairy"})"), "accepted");
}

TEST_F(OtherEndpointTest, BesideItsOwnFieldAnotherIsIgnored) {
  EXPECT_EQ(ErrorFrom(kChatCompletions,
                      R"({"messages": [{"role": "user", "content": "Hi"}], "input": "x"})"),
            "accepted");
  EXPECT_EQ(ErrorFrom(kResponses, R"({"input": "Hi", "messages": []})"), "accepted");
}

// Parts that only the bodies of another path have, where the prompt itself has the same name.
TEST_F(OtherEndpointTest, PartsOfOtherBodies) {
  struct Part {
    const Api* api;
    std::string body;  // without brackets
    std::string error;
  };
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string result = R"(, {"role": "tool", "tool_call_id": "c", "content": "r"}])";
  const std::string calls =
      R"(, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
           "function": {"name": "f", "arguments": "{}"}}]})";
  const std::string chat = " is for POST /v1/chat/completions; this path reads ";
  const std::string messages = " is for POST /v1/messages; this path reads ";
  const std::string flat = "name and parameters beside the type";
  const Part parts[] = {
      {&kMessages, R"("messages": [)" + user + result,
       "messages[1].role: a message of the role tool" + chat + "tool_result blocks"},
      {&kMessages, R"("messages": [)" + user + calls + result,
       "messages[1].tool_calls: this field" + chat + "tool_use blocks"},
      {&kResponses, R"("input": [)" + user + result,
       "input[1].role: an item of the role tool" + chat + "function_call_output items"},
      {&kResponses, R"("input": "Hi", "tools": [{"type": "function", "function": {"name": "f"}}])",
       "tools[0].function: a tool with this field" + chat + flat},
      {&kResponses, R"("input": "Hi", "tools": [{"type": "custom", "custom": {"name": "f"}}])",
       "tools[0].custom: a tool with this field" + chat + flat},
      {&kResponses, R"("input": "Hi", "tools": [{"name": "f", "input_schema": {}}])",
       "tools[0].input_schema: a tool with this field" + messages + flat},
      {&kChatCompletions, R"("messages": [)" + user + R"(], "system": "Be brief.")",
       "system: this field" + messages + "messages of the role system"},
      {&kChatCompletions, R"("messages": [)" + user + R"(, {"role": "assistant", "content": [
           {"type": "tool_use", "id": "t", "name": "f", "input": {}}]}])",
       "messages[1].content[0].type: a block of the type tool_use" + messages +
           "tool_calls and messages of the role tool"},
  };
  for (const Part& part : parts) {
    EXPECT_EQ(ErrorFrom(*part.api, "{" + part.body + "}"), part.error) << part.body;
  }
  EXPECT_EQ(ErrorFrom(kChatCompletions, R"({"system": "", "messages": [)" + user + "]}"),
            "accepted");
  EXPECT_EQ(ErrorFrom(kMessages, R"({"messages": [{"role": "user", "content": "Hi",
                                     "tool_calls": []}]})"),
            "accepted");
}

// The two kinds of messages differ in their tools.
TEST_F(OtherEndpointTest, ToolsOfTheOtherMessages) {
  const std::string start =
      R"({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], )";
  EXPECT_EQ(ErrorFrom(kMessages,
                      start + R"("tools": [{"type": "function", "function": {"name": "f"}}]})"),
            "tools[0].type: a tool of the type function is for POST /v1/chat/completions; this "
            "path reads a name and an input_schema");
  EXPECT_EQ(ErrorFrom(kChatCompletions, start + R"("tools": [{"name": "f", "input_schema": {}}]})"),
            "tools[0].input_schema: a tool with this field is for POST /v1/messages; this path "
            "reads function.parameters");
}

}  // namespace
}  // namespace fathom::api
