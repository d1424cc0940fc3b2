// The golden cases of data/encoding, read with a JSON library of their own so that the tests do not
// judge the code with itself.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "chat/chat.h"
#include "chat/messages.h"
#include "chat/profile.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {

using Json = nlohmann::ordered_json;

// One file of data/encoding, or nullopt where that data is not present.
inline std::optional<std::string> EncodingText(std::string_view name) {
  const auto path = SharedData(std::string("data/encoding/").append(name));
  if (!path) return std::nullopt;
  return ReadFile(*path);
}

inline std::optional<Json> EncodingJson(std::string_view name) {
  const std::optional<std::string> text = EncodingText(name);
  if (!text) return std::nullopt;
  return Json::parse(*text, nullptr, false);
}

// One of extra/encode_cases.json, as the request and options that EncodeChat takes.
struct EncodeCase {
  std::string name;
  ChatRequest request;
  EncodeOptions options;
  PromptProfile profile;
  std::string expected;
};

inline EncodeCase ReadEncodeCase(const Json& json) {
  EncodeCase result;
  result.name = json["name"].get<std::string>() + "/" + json["profile"].get<std::string>();
  Json request = {{"messages", json["messages"]}, {"context", json["context"]}};
  const Result<ChatRequest> parsed =
      ParseChatRequest(request.dump(), {.developer_is_system = false});
  EXPECT_TRUE(parsed) << result.name << ": " << parsed.error().message;
  if (parsed) result.request = *parsed;
  const Json& effort = json["reasoning_effort"];
  result.options = {.thinking = json["thinking_mode"] == "thinking" ? ThinkingMode::kThinking
                                                                    : ThinkingMode::kChat,
                    .drop_thinking = json["drop_thinking"].get<bool>(),
                    .effort = effort.is_null() ? "" : effort.get<std::string>(),
                    .add_bos = json["add_bos"].get<bool>()};
  result.profile = *FindProfile(json["profile"].get<std::string>());
  result.expected = json["expected"].get<std::string>();
  return result;
}

// The official goldens 1 to 4: the first three think, the fourth does not.
struct OfficialGolden {
  std::string input;
  std::string output;
  EncodeOptions options;
};

inline std::optional<OfficialGolden> ReadOfficialGolden(int number) {
  const std::string suffix = std::to_string(number);
  const auto input = EncodingText("official_v4/test_input_" + suffix + ".json");
  const auto output = EncodingText("official_v4/test_output_" + suffix + ".txt");
  if (!input || !output) return std::nullopt;
  return OfficialGolden{
      *input, *output, {.thinking = number == 4 ? ThinkingMode::kChat : ThinkingMode::kThinking}};
}

}  // namespace fathom::testing
