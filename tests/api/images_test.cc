// Images for a model that reads text only, in each place of a conversation and by each policy, on
// the three chat APIs. docs/spec/encoding.md 12.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kReplaced = "[Unsupported Image]";

class ImagesTest : public testing::ApiModelTest, public ::testing::WithParamInterface<const Api*> {
 protected:
  static std::string Image() {
    if (GetParam() == &kMessages) {
      return R"({"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                             "data": "iVBORw0KGgo="}})";
    }
    const std::string url = R"("data:image/png;base64,iVBORw0KGgo=")";
    if (GetParam() == &kResponses) return R"({"type": "input_image", "image_url": )" + url + "}";
    return R"({"type": "image_url", "image_url": {"url": )" + url + "}}";
  }
  static std::string Shows(const std::string& image) {
    const std::string type = GetParam() == &kResponses ? "input_text" : "text";
    return R"({"role": "user", "content": [{"type": ")" + type + R"(", "text": "look"}, )" + image +
           "]}";
  }
  // A call of the assistant, and its result with this content.
  static std::string CallAndResult(const std::string& content) {
    if (GetParam() == &kMessages) {
      return R"({"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": )" +
             content + "}]}";
    }
    if (GetParam() == &kResponses) {
      return R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": )" +
             content + "}";
    }
    return R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
                  "function": {"name": "f", "arguments": "{}"}}]},
              {"role": "tool", "tool_call_id": "c", "content": )" +
           content + "}";
  }

  // Returns the prompt, or the error.
  std::string Prompt(const std::string& turns) const {
    const std::string key = GetParam() == &kResponses ? "input" : "messages";
    const ApiResult<ApiCall> call =
        GetParam()->prepare("{\"" + key + "\": [" + turns + R"(], "thinking": false})", model_);
    return call ? *tokenizer_.Decode(call->requests[0].prompt) : call.error().message;
  }
};

const std::string kAnswered = R"({"role": "assistant", "content": "a"})";
const std::string kNext = R"({"role": "user", "content": "b"})";

TEST_P(ImagesTest, EarlierOnesAreReplaced) {
  const std::string shown =
      "<｜User｜>look\n\n" + std::string(kReplaced) + "<｜Assistant｜></think>";
  EXPECT_THAT(Prompt(Shows(Image()) + ", " + kAnswered + ", " + kNext),
              EndsWith(shown + "a<｜end▁of▁sentence｜><｜User｜>b<｜Assistant｜></think>"));
  EXPECT_THAT(Prompt(Shows(Image()) + ", " + CallAndResult(R"("r")")), HasSubstr(shown))
      << "a result begins another turn";
}

TEST_P(ImagesTest, TheLastTurnHasNone) {
  const std::string refused = "this model reads text only and does not support images";
  EXPECT_THAT(Prompt(Shows(Image())), HasSubstr(refused));
  EXPECT_THAT(Prompt(kNext + ", " + kAnswered + ", " + Shows(Image())), HasSubstr(refused));
  EXPECT_THAT(Prompt(Shows(Image()) + ", " + kNext), HasSubstr(refused)) << "both are one turn";
  EXPECT_THAT(Prompt(Shows(Image()) + R"(, {"role": "system", "content": "s"})"),
              HasSubstr(refused));
}

TEST_P(ImagesTest, ThoseOfToolsAreNamed) {
  EXPECT_THAT(Prompt(kNext + ", " + CallAndResult("[" + Image() + "]")),
              HasSubstr("<tool_result>[Unsupported "))
      << "as in DeepSeek's encoder";
}

TEST_P(ImagesTest, OptionsReplaceAllOrNone) {
  model_.defaults.media = MediaPolicy::kAll;
  EXPECT_THAT(Prompt(Shows(Image())),
              EndsWith("<｜User｜>look\n\n" + std::string(kReplaced) + "<｜Assistant｜></think>"));
  model_.defaults.media = MediaPolicy::kRefuse;
  EXPECT_THAT(Prompt(Shows(Image()) + ", " + kAnswered + ", " + kNext),
              StartsWith(GetParam() == &kResponses ? "input[0].content[1].type: expected text"
                                                   : "messages[0].content[1].type: expected text"));
}

INSTANTIATE_TEST_SUITE_P(Apis, ImagesTest,
                         ::testing::Values(&kChatCompletions, &kResponses, &kMessages),
                         [](const ::testing::TestParamInfo<const Api*>& api) {
                           if (api.param == &kMessages) return "Messages";
                           return api.param == &kResponses ? "Responses" : "Chat";
                         });

}  // namespace
}  // namespace fathom::api
