// The golden prompts of the official encoder, asked for as clients ask.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"

namespace fathom {
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

// Where servers differ from the official encoder: every turn of the assistant begins with its
// header, and no text stands outside of a turn (docs/spec/encoding.md section 12).
std::optional<std::string> ServedPrompt(const std::string& name) {
  static const std::map<std::string, std::string> kPrompts = {
      {"consecutive_assistants",
       "<｜begin▁of▁sentence｜><｜User｜>one<｜Assistant｜></think>x<｜end▁of▁sentence｜>"
       "<｜Assistant｜></think>y<｜end▁of▁sentence｜><｜User｜>z<｜Assistant｜></think>"},
      {"latest_reminder_after_user_quirk",
       "<｜begin▁of▁sentence｜><｜User｜>u<｜latest_reminder｜>2026-11-21<｜Assistant｜></think>"},
      {"mid_system_has_no_token",
       "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜></think>a<｜end▁of▁sentence｜><｜User｜>"
       "<system-reminder>\nmid\n</system-reminder>\n\nv<｜Assistant｜></think>"},
      {"only_system", "<｜begin▁of▁sentence｜>s<｜Assistant｜></think>"}};
  const auto found = kPrompts.find(name);
  return found == kPrompts.end() ? std::nullopt : std::optional(found->second);
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
  if (!golden["reasoning_effort"].is_null()) {
    body["reasoning_effort"] = golden["reasoning_effort"];
  }
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
    if (const std::optional<std::string> served = ServedPrompt(name)) {
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
}  // namespace fathom
