// Chats of clients from before there were tools: "functions" and "function_call".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/openai/openai_api.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

class LegacyFunctionsTest : public testing::ApiModelTest {
 protected:
  testing::ToldAnswer Tell(const std::string& fields, const std::string& text) const {
    const ApiResult<ApiCall> call = kChatCompletions.prepare(
        R"({"messages": [{"role": "user", "content": "Hi"}], "enable_thinking": false, )" + fields +
            "}",
        model_);
    EXPECT_TRUE(call) << (call ? "" : call.error().message);
    return call ? testing::Tell(*call, model_, Events(text, FinishReason::kStop))
                : testing::ToldAnswer();
  }
};

constexpr const char* kFunctions = R"("functions": [{"name": "f"}, {"name": "g"}])";
constexpr const char* kTwoFunctionCalls =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"g\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST_F(LegacyFunctionsTest, AnAnswerHasOneFunctionCall) {
  const Json choice = Tell(kFunctions, kTwoFunctionCalls).whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "function_call");
  EXPECT_EQ(choice["message"]["function_call"],
            Json({{"name", "f"}, {"arguments", R"({"a": "x"})"}}));
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_TRUE(choice["message"]["content"].is_null());
}

TEST_F(LegacyFunctionsTest, AStreamHasTheSame) {
  std::string name;
  std::string arguments;
  Json finish;
  for (const Json& chunk : testing::Chunks(
           Tell(std::string(kFunctions) + R"(, "stream": true)", kTwoFunctionCalls).stream)) {
    const Json& choice = chunk["choices"][0];
    EXPECT_FALSE(choice["delta"].contains("tool_calls")) << choice;
    if (choice["delta"].contains("function_call")) {
      const Json& call = choice["delta"]["function_call"];
      if (call.contains("name")) name += call["name"].get<std::string>();
      arguments += call["arguments"].get<std::string>();
    }
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, R"({"a": "x"})");
  EXPECT_EQ(finish, "function_call");
}

TEST_F(LegacyFunctionsTest, WithoutACallNothingDiffers) {
  const Json choice = Tell(kFunctions, "Hello.").whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["content"], "Hello.");
  EXPECT_FALSE(choice["message"].contains("function_call"));
}

}  // namespace
}  // namespace fathom::api
