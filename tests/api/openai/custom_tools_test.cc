// Custom tools of chat completions: offered, called, and told whole and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/openai/openai_api.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

class CustomToolsTest : public testing::ApiModelTest {
 protected:
  CustomToolsTest() { model_.limits.max_context = 8192; }

  ApiCall Prepare(const std::string& format, const std::string& fields = "") const {
    const ApiResult<ApiCall> call = kChatCompletions.prepare(
        R"({"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "none", "tools": [
            {"type": "custom", "custom": {"name": "patch", "format": )" +
            format + R"(}}, {"type": "function", "function": {"name": "f"}}])" + fields + "}",
        model_);
    EXPECT_TRUE(call) << (call ? "" : call.error().message);
    return call ? *call : ApiCall();
  }
};

constexpr const char* kCustomAnswer =
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"patch\">\n"
    "<｜DSML｜parameter name=\"input\" string=\"true\">*** \"Begin\"\né</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"x\" string=\"false\">1</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST_F(CustomToolsTest, CallsAreToldWithTheirText) {
  const ApiCall call = Prepare("null", R"(, "stream": true)");
  const testing::ToldAnswer told =
      testing::Tell(call, model_, Events(kCustomAnswer, FinishReason::kStop));
  const Json& message = told.whole["choices"][0]["message"];
  ASSERT_EQ(message["tool_calls"].size(), 2u) << told.whole;
  const Json& custom = message["tool_calls"][0];
  EXPECT_EQ(custom, Json({{"id", custom["id"]},
                          {"type", "custom"},
                          {"custom", {{"name", "patch"}, {"input", "*** \"Begin\"\né"}}}}));
  EXPECT_EQ(message["tool_calls"][1]["type"], "function");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], R"({"x": 1})");

  Json begun;
  std::string input;
  for (const Json& chunk : testing::Chunks(told.stream)) {
    for (const Json& choice : chunk["choices"]) {
      if (!choice["delta"].contains("tool_calls")) continue;
      const Json& delta = choice["delta"]["tool_calls"][0];
      if (delta["index"] != 0) continue;
      if (begun.is_null()) {
        begun = delta;
      } else {
        EXPECT_EQ(delta.size(), 2u) << delta;
      }
      input += delta["custom"]["input"].get<std::string>();
    }
  }
  EXPECT_EQ(begun, Json({{"index", 0},
                         {"id", custom["id"]},
                         {"type", "custom"},
                         {"custom", {{"name", "patch"}, {"input", ""}}}}));
  EXPECT_EQ(input, "*** \"Begin\"\né");
}

TEST_F(CustomToolsTest, ARegularExpressionHoldsAndALarkGrammarIsShown) {
  const std::string regex =
      R"({"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}})";
  const ToolConstraint tools =
      testing::SpecFrom(Prepare(regex).requests[0].sampling.constraint).tools;
  ASSERT_EQ(tools.tools.size(), 2u);
  EXPECT_EQ(tools.tools[0].raw_parameter, "input");
  EXPECT_EQ(tools.tools[0].raw_regex, "[a-z]+");
  EXPECT_EQ(Prepare(regex).relaxed, "");
  const ApiCall lark =
      Prepare(R"({"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}})");
  EXPECT_EQ(lark.relaxed, "tools[0].custom.format");
  EXPECT_THAT(*tokenizer_.Decode(lark.requests[0].prompt),
              ::testing::HasSubstr("It must match this lark grammar:\\nstart: /.+/"));
}

TEST_F(CustomToolsTest, AChoiceMayNameOne) {
  const ApiCall call =
      Prepare("null", R"(, "tool_choice": {"type": "custom", "custom": {"name": "patch"}})");
  const ToolConstraint tools = testing::SpecFrom(call.requests[0].sampling.constraint).tools;
  ASSERT_EQ(tools.tools.size(), 1u);
  EXPECT_EQ(tools.tools[0].name, "patch");
  EXPECT_TRUE(call.answers.parser.begins_with_call);
}

}  // namespace
}  // namespace fathom::api
