#include "chat/media_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "chat/messages.h"

namespace fathom::chat {
namespace {

std::string Said(std::string_view type) { return MediaParts(MediaPolicy::kAll).Replace(type, "p"); }

TEST(MediaParts, TheTextNamesTheMedium) {
  EXPECT_EQ(Said("image_url"), "[Unsupported Image]");
  EXPECT_EQ(Said("input_image"), "[Unsupported Image]");
  EXPECT_EQ(Said("computer_screenshot"), "[Unsupported Image]");
  EXPECT_EQ(Said("input_audio"), "[Unsupported Audio]");
  EXPECT_EQ(Said("video_url"), "[Unsupported Video]");
  EXPECT_EQ(Said("input_file"), "[Unsupported Document]");
  EXPECT_EQ(Said("document"), "[Unsupported Document]");
  EXPECT_EQ(Said("hologram"), "[Unsupported hologram]");
}

// The conversation of five messages with an image in message `index`.
Result<ChatRequest> WithImageIn(int index, MediaPolicy policy) {
  std::string messages;
  for (int i = 0; i < 5; ++i) {
    const std::string image = R"([{"type": "text", "text": "a"}, {"type": "image_url"}])";
    messages += messages.empty() ? "[" : ", ";
    messages += R"({"role": ")" + std::string(i % 2 == 0 ? "user" : "assistant") +
                R"(", "content": )" + (i == index ? image : R"("b")") + "}";
  }
  return ParseChatRequest(messages + "]", {.media = policy});
}

TEST(MediaParts, PoliciesDifferInTheLastTurn) {
  for (const int index : {0, 2}) {
    const Result<ChatRequest> earlier = WithImageIn(index, MediaPolicy::kEarlier);
    ASSERT_TRUE(earlier) << earlier.error().message;
    EXPECT_EQ(earlier->messages[static_cast<std::size_t>(index)].content,
              "a\n\n[Unsupported Image]");
    EXPECT_FALSE(WithImageIn(index, MediaPolicy::kRefuse));
  }
  const Result<ChatRequest> last = WithImageIn(4, MediaPolicy::kEarlier);
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().message,
            "messages[4].content[1].type: expected text (this model reads text only and does not "
            "support images), found \"image_url\"");
  EXPECT_TRUE(WithImageIn(4, MediaPolicy::kAll));
}

// All messages between two answers are one turn of the user; an open answer does not end it.
TEST(MediaParts, WhatTheLastTurnIs) {
  const auto accepts = [](const std::string& messages) {
    return ParseChatRequest("[" + messages + "]").has_value();
  };
  const std::string image = R"({"role": "user", "content": [{"type": "input_image"}]})";
  const std::string text = R"({"role": "user", "content": "a"})";
  const std::string answer = R"({"role": "assistant", "content": "a", "prefix": true})";
  const std::string result = R"({"role": "tool", "content": "a"})";
  EXPECT_FALSE(accepts(image + ", " + text));
  EXPECT_FALSE(accepts(image + ", " + answer));
  EXPECT_TRUE(accepts(image + ", " + answer + ", " + text));
  EXPECT_TRUE(accepts(image + ", " + answer + ", " + result));
  EXPECT_FALSE(accepts(answer + ", " + text + ", " + image + ", " + answer));
}

}  // namespace
}  // namespace fathom::chat
