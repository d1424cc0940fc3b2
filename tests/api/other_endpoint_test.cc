// Bodies at the path of another API.
#include <gtest/gtest.h>

#include <string>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom {
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

TEST_F(OtherEndpointTest, BesideItsOwnFieldAnotherIsIgnored) {
  EXPECT_EQ(ErrorFrom(kChatCompletions,
                      R"({"messages": [{"role": "user", "content": "Hi"}], "input": "x"})"),
            "accepted");
  EXPECT_EQ(ErrorFrom(kResponses, R"({"input": "Hi", "messages": []})"), "accepted");
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
}  // namespace fathom
