#include "api/common/reasoning_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "chat/literals.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

class ReasoningFieldsTest : public testing::ApiModelTest {
 protected:
  ReasoningFieldsTest() { model_.profile = *FindProfile("v4-0731"); }

  const Request RequestFrom(const Api& api, const std::string& fields) const {
    const std::string text = &api == &kResponses
                                 ? R"({"input": "q")"
                                 : R"({"messages": [{"role": "user", "content": "q"}])";
    const ApiResult<ApiCall> call =
        api.prepare(text + (fields.empty() ? "}" : ", " + fields + "}"), model_);
    EXPECT_TRUE(call) << fields << ": " << (call ? "" : call.error().message);
    return call ? call->requests[0] : Request();
  }
  // "off", or the text of the effort: "none", "high", "max".
  std::string Reasoning(const Api& api, const std::string& fields) const {
    const std::string prompt = *tokenizer_.Decode(RequestFrom(api, fields).prompt);
    if (prompt.ends_with(kThinkCloseToken)) return "off";
    if (prompt.find("Absolute maximum") != std::string::npos) return "high";
    return prompt.find("Beyond maximum") != std::string::npos ? "max" : "none";
  }
};

TEST_F(ReasoningFieldsTest, AreTheSameOnAllApis) {
  struct Case {
    std::string fields;
    std::string expected;
  };
  const Case cases[] = {
      {"", "high"},
      {R"("reasoning_effort": "none")", "off"},
      {R"("reasoning_effort": "minimal")", "none"},
      {R"("reasoning_effort": "low")", "none"},
      {R"("reasoning_effort": "medium")", "high"},
      {R"("reasoning_effort": "high")", "high"},
      {R"("reasoning_effort": "xhigh")", "high"},
      {R"("reasoning_effort": "max")", "max"},
      {R"("reasoning_effort": "ultra")", "max"},
      {R"("reasoning": {"effort": "max"})", "max"},
      {R"("output_config": {"effort": "low"})", "none"},
      {R"("chat_template_kwargs": {"reasoning_effort": "max"})", "max"},
      {R"("thinking": {"type": "disabled"}, "reasoning_effort": "high")", "off"},
      {R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")", "high"},
      {R"("thinking": {"type": "auto"})", "high"},
      {R"("thinking": {"type": "adaptive"}, "reasoning_effort": "max")", "max"},
      {R"("thinking": true)", "high"},
      {R"("thinking": false)", "off"},
      {R"("thinking": "auto")", "high"},
      {R"("thinking": "disabled")", "off"},
      {R"("enable_thinking": false, "reasoning_effort": "max")", "off"},
      {R"("reasoning": {"enabled": false})", "off"},
      {R"("chat_template_kwargs": {"thinking": false}, "reasoning_effort": "max")", "off"},
      {R"("chat_template_kwargs": {"enable_thinking": false})", "off"},
      {R"("thinking": {"type": "enabled"}, "enable_thinking": false)", "high"},
      {R"("thinking": {"type": "enabled", "budget_tokens": 0})", "high"},
  };
  for (const Api* api : {&kChatCompletions, &kResponses, &kMessages}) {
    for (const Case& example : cases) {
      EXPECT_EQ(Reasoning(*api, example.fields), example.expected)
          << api->paths[0] << " " << example.fields;
    }
    const Request none =
        RequestFrom(*api, R"("thinking": {"type": "enabled", "budget_tokens": 0})");
    ASSERT_TRUE(none.sampling.reasoning_budget);
    EXPECT_EQ(none.sampling.reasoning_budget->n_tokens, 0);
  }
}

TEST_F(ReasoningFieldsTest, DefaultsCanBeChosen) {
  model_.defaults.encoding.effort = "low";
  EXPECT_EQ(Reasoning(kChatCompletions, ""), "none");
  EXPECT_EQ(
      Reasoning(kChatCompletions, R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")"),
      "none");
  model_.defaults.encoding.effort = "none";
  EXPECT_EQ(Reasoning(kChatCompletions, ""), "off");
  EXPECT_EQ(Reasoning(kChatCompletions, R"("enable_thinking": true)"), "high");
  model_.defaults.encoding.thinking = ThinkingMode::kChat;
  EXPECT_EQ(Reasoning(kResponses, R"("reasoning": {"effort": "max"})"), "max");
}

TEST_F(ReasoningFieldsTest, ErrorsNameTheField) {
  const auto message = [&](const std::string& fields) {
    const auto call = kChatCompletions.prepare(
        R"({"messages": [{"role": "user", "content": "q"}], )" + fields + "}", model_);
    return call ? "no error" : call.error().message;
  };
  EXPECT_EQ(message(R"("thinking": {"type": "on"})"),
            "thinking.type: expected enabled, disabled, adaptive or auto, found \"on\"");
  EXPECT_EQ(message(R"("thinking": 1)"),
            "thinking: expected an object with a type, true or false, found 1");
  EXPECT_EQ(
      message(R"("reasoning": {"effort": "most"})"),
      "reasoning.effort: expected one of none, minimal, low, medium, high, xhigh, max, ultra, "
      "found \"most\"");
}

TEST_F(ReasoningFieldsTest, LikeTheHostedApi) {
  model_.limits.max_context = 200'000;
  model_.defaults.like_hosted = true;
  const auto sampling = [&](const std::string& fields) {
    return RequestFrom(kChatCompletions, fields).sampling;
  };
  const std::string off = R"("thinking": {"type": "disabled"}, "temperature": 0.3)";
  EXPECT_EQ(sampling(off).max_tokens, 8192);
  EXPECT_FLOAT_EQ(static_cast<float>(sampling(off).temperature), 0.3f);
  const SamplingParameters thinks = sampling(R"("temperature": 0.3, "top_p": 0.5)");
  EXPECT_EQ(thinks.max_tokens, 65'536);
  EXPECT_EQ(thinks.temperature, 1);
  EXPECT_EQ(thinks.top_p, 1);
  EXPECT_EQ(sampling(R"("reasoning_effort": "ultra")").max_tokens, 131'072);
  EXPECT_EQ(sampling(R"("max_tokens": 7)").max_tokens, 7);
  const SamplingParameters tools =
      sampling(R"("tools": [{"type": "function", "function": {"name": "f"}}])");
  EXPECT_NEAR(tools.top_p, 0.95, 1e-7) << "single precision";
  model_.limits.max_context = 5000;
  EXPECT_LT(*sampling("").max_tokens, 5000);
  EXPECT_EQ(*sampling("").max_tokens + std::ssize(RequestFrom(kChatCompletions, "").prompt), 5000);
}

}  // namespace
}  // namespace fathom::api
