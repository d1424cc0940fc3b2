#include "measure/slice/tokenizer_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::measure {
namespace {

using nlohmann::json;

std::vector<std::int64_t> Sizes() {
  return {SmallestVocabulary(), SmallestVocabulary() + 1, 1024, LargestVocabulary()};
}

Tokenizer Make(std::int64_t size) {
  Result<Tokenizer> tokenizer = Tokenizer::Parse(TokenizerJson(size), "tokenizer.json");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

json ParseFile(const std::filesystem::path& path) {
  return json::parse(testing::ReadFile(path), nullptr, false);
}

TEST(TokenizerJsonTest, ThePublishedSizeCanBeMade) { EXPECT_GE(LargestVocabulary(), 129'280); }

TEST(TokenizerJsonTest, EveryIdIsATokenOfItsOwn) {
  for (const std::int64_t size : Sizes()) {
    const Tokenizer tokenizer = Make(size);
    EXPECT_EQ(tokenizer.vocab_size(), size);
    std::set<std::string_view> texts;
    for (Token token = 0; token < size; ++token) {
      EXPECT_FALSE(tokenizer.TokenBytes(token).empty()) << token << " of " << size;
      EXPECT_TRUE(texts.insert(tokenizer.TokenBytes(token)).second) << token << " of " << size;
    }
  }
}

TEST(TokenizerJsonTest, TextComesBack) {
  for (const std::int64_t size : Sizes()) {
    const Tokenizer tokenizer = Make(size);
    for (const std::string_view text :
         {"", "hello", "Once upon a time, there were 1234 kings.", " a  b\n\n\tc ", "żółw 🐢 日本語",
          "<｜User｜>Hi<｜Assistant｜></think>", "banana BANANA bAnAnA"}) {
      for (const SpecialTokens mode : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
        const Result<std::vector<Token>> tokens = tokenizer.Encode(text, mode);
        ASSERT_TRUE(tokens) << tokens.error().message;
        EXPECT_EQ(tokenizer.Decode(*tokens).value(), text);
      }
    }
  }
}

TEST(TokenizerJsonTest, EveryTokenIsWhatItsTextBecomes) {
  const Tokenizer tokenizer = Make(4096);
  for (Token token = 0; token < 4096; ++token) {
    const std::string_view text = tokenizer.TokenBytes(token);
    const Result<std::vector<Token>> tokens = tokenizer.Encode(text, SpecialTokens::kParse);
    if (tokens) {  // a byte of a longer character is no text
      EXPECT_EQ(*tokens, std::vector<Token>{token}) << text;
    }
  }
}

TEST(TokenizerJsonTest, HasTheTokensOfTheChatFormat) {
  const json embedded = ParseFile(testing::ProjectPath("models/fairy/tokenizer.json"));
  for (const std::int64_t size : Sizes()) {
    const Tokenizer tokenizer = Make(size);
    EXPECT_EQ(tokenizer.Find("<｜begin▁of▁sentence｜>"), 0);
    EXPECT_EQ(tokenizer.Find("<｜end▁of▁sentence｜>"), 1);
    EXPECT_TRUE(tokenizer.IsSpecial(0) && tokenizer.IsSpecial(1));
    for (const json& token : embedded["added_tokens"]) {
      EXPECT_TRUE(tokenizer.Find(token["content"].get<std::string>())) << token["content"];
    }
  }
}

TEST(TokenizerJsonTest, CutsTextAsThePublishedFilesDo) {
  const auto published = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
  if (!published) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const json expected = ParseFile(*published);
  const json made = json::parse(TokenizerJson(1024), nullptr, false);
  for (const char* stage : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    EXPECT_EQ(made[stage], expected[stage]) << stage;
  }
}

TEST(TokenizerJsonTest, TheFilesBesideItNameTheSameTokens) {
  const json settings = json::parse(TokenizerConfigJson(1'048'576), nullptr, false);
  EXPECT_EQ(settings["bos_token"], "<｜begin▁of▁sentence｜>");
  EXPECT_EQ(settings["eos_token"], "<｜end▁of▁sentence｜>");
  EXPECT_EQ(settings["model_max_length"], 1'048'576);
  const json generation = json::parse(GenerationConfigJson(), nullptr, false);
  EXPECT_EQ(generation["bos_token_id"], 0);
  EXPECT_EQ(generation["eos_token_id"], 1);
}

}  // namespace
}  // namespace fathom::measure
