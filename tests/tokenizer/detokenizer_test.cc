#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"

namespace fathom {
namespace {

// Returns the stream's text for these tokens; checks every delta.
std::string Stream(const Tokenizer& tokenizer, const std::vector<Token>& tokens,
                   Detokenizer::Special special = Detokenizer::Special::kKeep) {
  Detokenizer detokenizer(tokenizer, special);
  std::string all;
  std::string delta;
  for (const Token token : tokens) {
    delta.clear();
    detokenizer.Push(token, delta);
    EXPECT_EQ(FindInvalidUtf8(delta), std::nullopt);
    EXPECT_LE(detokenizer.pending_bytes(), 3u);
    all += delta;
  }
  detokenizer.Finish(all);
  EXPECT_EQ(detokenizer.pending_bytes(), 0u);
  return all;
}

TEST(Detokenizer, EveryVectorComesBack) {
  const auto tokenizer_path = testing::SharedData(testing::kOfficialTokenizer);
  const auto cases_path = testing::SharedData(testing::kTokenizerVectors);
  if (!tokenizer_path || !cases_path) GTEST_SKIP() << testing::kNoSharedData;
  const Tokenizer tokenizer = testing::LoadTokenizer(*tokenizer_path);
  std::size_t n_partial = 0;
  for (const testing::TokenCase& golden : testing::ReadTokenCases(*cases_path)) {
    EXPECT_EQ(Stream(tokenizer, golden.tokens), golden.text);
    for (const Token token : golden.tokens) {
      n_partial += FindInvalidUtf8(tokenizer.TokenBytes(token)).has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(n_partial, 20u) << "the vectors must hold characters of several tokens";
}

// Every prefix of every vector, as if the generation ended there.
TEST(Detokenizer, CutGenerationsEndWithOneReplacement) {
  const Tokenizer tokenizer = testing::LoadTokenizer(testing::ProjectPath("models/fairy"));
  const auto cases_path = testing::SharedData(testing::kPreTokenizerCases);
  if (!cases_path) GTEST_SKIP() << testing::kNoSharedData;
  for (const testing::TokenCase& golden : testing::ReadTokenCases(*cases_path)) {
    std::vector<Token> tokens = *tokenizer.Encode(golden.text, SpecialTokens::kPlainText);
    ASSERT_EQ(Stream(tokenizer, tokens), golden.text);
    while (!tokens.empty()) {
      tokens.pop_back();
      ASSERT_EQ(Stream(tokenizer, tokens), ReplaceInvalidUtf8(*tokenizer.Decode(tokens)));
    }
  }
}

// Random tokens give random, mostly broken bytes.
TEST(Detokenizer, RandomTokensAreRepairedAsOneString) {
  const Tokenizer tokenizer = testing::LoadTokenizer(testing::ProjectPath("models/fairy"));
  std::vector<Token> byte_tokens;
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string_view bytes = tokenizer.TokenBytes(token);
    if (bytes.size() == 1 && static_cast<unsigned char>(bytes[0]) >= 0x80) {
      byte_tokens.push_back(token);
    }
  }
  ASSERT_EQ(byte_tokens.size(), 128u);
  EXPECT_TRUE(rc::check("the stream is ReplaceInvalidUtf8 of all bytes", [&] {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto any = rc::gen::inRange<Token>(0, static_cast<Token>(tokenizer.vocab_size()));
      const auto tokens = *rc::gen::container<std::vector<Token>>(
          rc::gen::oneOf(rc::gen::elementOf(byte_tokens), any));
      RC_ASSERT(Stream(tokenizer, tokens) == ReplaceInvalidUtf8(*tokenizer.Decode(tokens)));
    }
  }));
}

TEST(Detokenizer, SkipsSpecialTokensOnRequest) {
  const Tokenizer tokenizer = testing::LoadTokenizer(testing::ProjectPath("models/fairy"));
  const std::vector<Token> tokens = *tokenizer.Encode(
      "<｜begin▁of▁sentence｜>a<think>b</think>c<｜end▁of▁sentence｜>", SpecialTokens::kParse);
  EXPECT_EQ(Stream(tokenizer, tokens, Detokenizer::Special::kSkip), "a<think>b</think>c");
  EXPECT_EQ(Stream(tokenizer, tokens),
            "<｜begin▁of▁sentence｜>a<think>b</think>c<｜end▁of▁sentence｜>");
}

TEST(Detokenizer, IdsWithoutTokenGiveNothing) {
  const Tokenizer tokenizer = testing::LoadTokenizer(testing::ProjectPath("models/fairy"));
  EXPECT_EQ(Stream(tokenizer, {-1, 4096, 1 << 30}), "");
}

}  // namespace
}  // namespace fathom
