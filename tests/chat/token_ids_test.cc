// From messages to token ids: the encoder and the tokenizer together, as the commands use them.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chat/encoder.h"
#include "tests/chat/golden.h"
#include "tokenizer/tokenizer.h"

namespace fathom::chat {
namespace {

using tokenizer::TextSpan;
using tokenizer::Tokenizer;

using testing::kNoSharedData;

std::optional<Tokenizer> PublishedTokenizer() {
  const auto path = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
  if (!path) return std::nullopt;
  Result<Tokenizer> tokenizer = Tokenizer::Load(*path);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  if (!tokenizer) return std::nullopt;
  return std::move(*tokenizer);
}

std::vector<Token> TokenIds(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::vector<TextSpan> spans;
  for (const PromptSpan& span : prompt.spans) {
    spans.push_back({.text = span.text, .trusted = span.trusted});
  }
  const Result<std::vector<Token>> tokens = tokenizer.Encode(spans);
  EXPECT_TRUE(tokens) << tokens.error().message;
  return tokens.value_or(std::vector<Token>());
}

// Whether the client wrote the text of a token into its messages.
bool ClientWroteTokens(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  return std::any_of(prompt.spans.begin(), prompt.spans.end(), [&](const PromptSpan& span) {
    const std::vector<TextSpan> as_ours = {{.text = span.text, .trusted = true}};
    const std::vector<TextSpan> as_theirs = {{.text = span.text, .trusted = span.trusted}};
    return tokenizer.Encode(as_ours).value() != tokenizer.Encode(as_theirs).value();
  });
}

struct Counts {
  int as_published = 0;  // the client's text not trusted
  int forged = 0;        // the client wrote tokens, which the reference encoder lets through
};

// The reference joins everything into one text and lets the tokenizer parse it; that is what
// trust_client_text does. Without it the ids are the same unless the client wrote tokens.
void ExpectIds(const Tokenizer& tokenizer, const ChatRequest& request, EncodeOptions options,
               const PromptProfile& profile, const std::vector<Token>& expected,
               const std::string& name, Counts& counts) {
  options.trust_client_text = false;
  const Result<EncodedPrompt> prompt = EncodeChat(request, options, profile);
  options.trust_client_text = true;
  const Result<EncodedPrompt> trusting = EncodeChat(request, options, profile);
  ASSERT_TRUE(prompt && trusting) << name;
  EXPECT_EQ(TokenIds(tokenizer, *trusting), expected) << name;
  if (ClientWroteTokens(tokenizer, *prompt)) {
    EXPECT_NE(TokenIds(tokenizer, *prompt), expected) << name;
    ++counts.forged;
  } else {
    EXPECT_EQ(TokenIds(tokenizer, *prompt), expected) << name;
    ++counts.as_published;
  }
}

TEST(TokenIds, EncodeCases) {
  const auto cases = testing::EncodingJson("extra/encode_cases.json");
  const std::optional<Tokenizer> tokenizer = PublishedTokenizer();
  if (!cases || !tokenizer) GTEST_SKIP() << kNoSharedData;
  Counts counts;
  for (const testing::Json& json : *cases) {
    const testing::EncodeCase golden = testing::ReadEncodeCase(json);
    ExpectIds(*tokenizer, golden.request, golden.options, golden.profile,
              json["expected_ids"].get<std::vector<Token>>(), golden.name, counts);
  }
  EXPECT_EQ(counts.as_published, 74);
  EXPECT_EQ(counts.forged, 1);
}

TEST(TokenIds, OfficialGoldens) {
  const auto ids = testing::EncodingJson("extra/official_output_token_ids.json");
  const std::optional<Tokenizer> tokenizer = PublishedTokenizer();
  if (!ids || !tokenizer) GTEST_SKIP() << kNoSharedData;
  Counts counts;
  for (int number = 1; number <= 4; ++number) {
    const auto golden = testing::ReadOfficialGolden(number);
    ASSERT_TRUE(golden);
    const std::string name = "test_output_" + std::to_string(number) + ".txt";
    const Result<ChatRequest> request =
        ParseChatRequest(golden->input, {.developer_is_system = false});
    ASSERT_TRUE(request) << request.error().message;
    ExpectIds(*tokenizer, *request, golden->options, PreviewProfile(),
              (*ids)[name].get<std::vector<Token>>(), name, counts);
  }
  EXPECT_EQ(counts.as_published, 4);
}

}  // namespace
}  // namespace fathom::chat
