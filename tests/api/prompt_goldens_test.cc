// The golden prompts of the official encoder, asked for as clients ask.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"
#include "tests/chat/served_prompts.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

// The model with the tokenizer that was published.
class PromptGoldensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
    if (!path) GTEST_SKIP() << testing::kNoSharedData;
    Result<Tokenizer> tokenizer = Tokenizer::Load(*path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_.emplace(*std::move(tokenizer));
  }

  ApiModel Model(const PromptProfile& profile) const {
    return {.tokenizer = &*tokenizer_,
            .profile = profile,
            .bos = 0,
            .eos = 1,
            .name = "m",
            .fingerprint = "",
            .limits = {.vocab_size = tokenizer_->vocab_size(), .max_context = 1000000}};
  }

  std::vector<Token> PromptFrom(const Json& body, const PromptProfile& profile) const {
    const ApiModel model = Model(profile);
    const ApiResult<ApiCall> call = kChatCompletions.prepare(body.dump(), model);
    EXPECT_TRUE(call) << call.error().message;
    return call ? call->requests[0].prompt : std::vector<Token>();
  }

  std::optional<Tokenizer> tokenizer_;
};

std::optional<std::string> GoldenText(const std::string& name) {
  const auto path = testing::SharedData("data/encoding/" + name);
  if (!path) return std::nullopt;
  return testing::ReadFile(*path);
}

// Clients' role developer is the system, and the case means the native role.
bool HasDeveloper(const Json& messages) {
  for (const Json& message : messages) {
    if (message["role"] == "developer") return true;
  }
  return false;
}

// The official encoder begins no turn behind one of the assistant.
void BeginNoTurn(Json* body) {
  const Json& messages = (*body)["messages"];
  if (messages.back()["role"] == "assistant") (*body)["add_generation_prompt"] = false;
}

// A case as a client would send it; nullopt if no request says it.
std::optional<Json> AsRequest(const Json& golden) {
  if (HasDeveloper(golden["messages"])) return std::nullopt;
  if (!golden["context"].is_null() && !golden["context"].empty()) return std::nullopt;
  if (!golden["add_bos"].get<bool>()) return std::nullopt;
  Json body = {
      {"messages", golden["messages"]},
      {"thinking", {{"type", golden["thinking_mode"] == "thinking" ? "enabled" : "disabled"}}},
      {"chat_template_kwargs", {{"drop_thinking", golden["drop_thinking"]}}}};
  // Where the official encoder is told no effort, it adds no text.
  const Json& effort = golden["reasoning_effort"];
  body["reasoning_effort"] = effort.is_null() ? Json("low") : effort;
  BeginNoTurn(&body);
  return body;
}

TEST_F(PromptGoldensTest, EncodeCases) {
  const auto text = GoldenText("extra/encode_cases.json");
  if (!text) GTEST_SKIP() << testing::kNoSharedData;
  int n_compared = 0;
  int n_forged = 0;
  int n_served = 0;
  int n_no_request = 0;
  for (const Json& golden : Json::parse(*text, nullptr, false)) {
    const std::string name = golden["name"].get<std::string>();
    SCOPED_TRACE(name);
    const std::optional<Json> body = AsRequest(golden);
    if (!body) {
      ++n_no_request;
      continue;
    }
    const std::vector<Token> prompt =
        PromptFrom(*body, *FindProfile(golden["profile"].get<std::string>()));
    if (const std::optional<std::string> served = testing::ServedPrompt(name)) {
      EXPECT_EQ(prompt, *tokenizer_->Encode(*served, SpecialTokens::kParse));
      ++n_served;
      continue;
    }
    EXPECT_EQ(*tokenizer_->Decode(prompt), golden["expected"].get<std::string>());
    // The one that the reference lets through; a server does not.
    const bool is_forged = name == "special_token_text_in_user_is_injected";
    const auto expected = golden["expected_ids"].get<std::vector<Token>>();
    EXPECT_EQ(prompt == expected, !is_forged);
    ++(is_forged ? n_forged : n_compared);
  }
  EXPECT_EQ(n_compared, 65);
  EXPECT_EQ(n_served, 4);
  EXPECT_EQ(n_forged, 1);
  EXPECT_EQ(n_no_request, 5);
}

TEST_F(PromptGoldensTest, OfficialCases) {
  const auto ids = GoldenText("extra/official_output_token_ids.json");
  if (!ids) GTEST_SKIP() << testing::kNoSharedData;
  const Json expected = Json::parse(*ids, nullptr, false);
  int n_compared = 0;
  for (int number = 1; number <= 4; ++number) {
    SCOPED_TRACE(number);
    const std::string suffix = std::to_string(number);
    Json body =
        Json::parse(*GoldenText("official_v4/test_input_" + suffix + ".json"), nullptr, false);
    if (body.is_array()) body = {{"messages", body}};
    if (HasDeveloper(body["messages"])) continue;
    body["thinking"] = {{"type", number == 4 ? "disabled" : "enabled"}};
    BeginNoTurn(&body);
    EXPECT_EQ(PromptFrom(body, PreviewProfile()),
              expected["test_output_" + suffix + ".txt"].get<std::vector<Token>>());
    ++n_compared;
  }
  EXPECT_EQ(n_compared, 3) << "the third has a developer of the native kind";
}

}  // namespace
}  // namespace fathom::api
