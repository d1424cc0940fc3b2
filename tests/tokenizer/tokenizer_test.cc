#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/utf8.h"
#include "tests/json/colliding_keys.h"
#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"

namespace fathom::tokenizer {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Tokens = std::vector<Token>;

Tokens Encode(const Tokenizer& tokenizer, std::string_view text,
              SpecialTokens mode = SpecialTokens::kParse) {
  const Result<Tokens> tokens = tokenizer.Encode(text, mode);
  EXPECT_TRUE(tokens) << (tokens ? "" : tokens.error().message);
  return tokens ? *tokens : Tokens();
}

std::string Decode(const Tokenizer& tokenizer, const Tokens& tokens) {
  const Result<std::string> text = tokenizer.Decode(tokens);
  EXPECT_TRUE(text) << (text ? "" : text.error().message);
  return text ? *text : "";
}

Tokens Concatenate(const std::vector<Tokens>& parts) {
  Tokens all;
  for (const Tokens& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class OfficialTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::SharedData(testing::kOfficialTokenizer);
    if (!path) GTEST_SKIP() << testing::kNoSharedData;
    tokenizer_.emplace(testing::LoadTokenizer(*path));
    file_ = Json::parse(testing::ReadFile(*path));
  }

  std::optional<Tokenizer> tokenizer_;
  Json file_;
};

TEST_F(OfficialTokenizer, AllVectors) {
  const auto cases = testing::ReadTokenCases(*testing::SharedData(testing::kTokenizerVectors));
  EXPECT_EQ(cases.size(), 2118u);
  std::size_t n_tokens = 0;
  for (const testing::TokenCase& golden : cases) {
    EXPECT_EQ(Encode(*tokenizer_, golden.text), golden.tokens) << golden.text;
    EXPECT_EQ(Decode(*tokenizer_, golden.tokens), golden.text);
    n_tokens += golden.tokens.size();
  }
  EXPECT_EQ(n_tokens, 173399u);
}

TEST_F(OfficialTokenizer, AllPreTokenizerCases) {
  const auto cases = testing::ReadTokenCases(*testing::SharedData(testing::kPreTokenizerCases));
  EXPECT_EQ(cases.size(), 3000u);
  for (const testing::TokenCase& golden : cases) {
    EXPECT_EQ(Encode(*tokenizer_, golden.text, SpecialTokens::kPlainText), golden.tokens);
    EXPECT_EQ(Decode(*tokenizer_, golden.tokens), golden.text);
  }
}

TEST_F(OfficialTokenizer, EveryAddedTokenAloneAndEmbedded) {
  EXPECT_EQ(tokenizer_->vocab_size(), 129280);
  const Json& added = file_.at("added_tokens");
  ASSERT_EQ(added.size(), 1283u);
  const Token x = Encode(*tokenizer_, "x").at(0);
  const Token y = Encode(*tokenizer_, "y").at(0);
  std::set<Token> ids;
  for (const Json& entry : added) {
    ids.insert(entry.at("id").get<Token>());
  }
  for (const Json& entry : added) {
    const std::string text = entry.at("content");
    const Token token = entry.at("id");
    EXPECT_EQ(tokenizer_->Find(text), token);
    EXPECT_EQ(tokenizer_->IsSpecial(token), entry.at("special").get<bool>());
    EXPECT_EQ(tokenizer_->TokenBytes(token), text);
    EXPECT_EQ(tokenizer_->TokenToText(token), text);
    EXPECT_EQ(Encode(*tokenizer_, text), Tokens{token}) << text;
    EXPECT_EQ(Encode(*tokenizer_, "x" + text + "y"), (Tokens{x, token, y})) << text;
    EXPECT_EQ(Encode(*tokenizer_, text + text), (Tokens{token, token})) << text;
    const Tokens plain = Encode(*tokenizer_, "x" + text + "y", SpecialTokens::kPlainText);
    EXPECT_EQ(Decode(*tokenizer_, plain), "x" + text + "y");
    for (const Token token_of_plain : plain) {
      EXPECT_FALSE(ids.contains(token_of_plain)) << text;
    }
  }
}

TEST_F(OfficialTokenizer, RandomUnicodeComesBack) {
  EXPECT_TRUE(
      rc::check("decode(encode(text)) == text", [this](const std::vector<std::uint32_t>& random) {
        std::vector<std::uint32_t> code_points = random;
        for (std::size_t i = 0; i < code_points.size(); ++i) {
          constexpr std::uint32_t kLimits[] = {0x80, 0x800, 0x10000, 0x110000};
          code_points[i] %= kLimits[i % 4];
        }
        const std::string text = testing::ToUtf8(code_points);
        for (const auto mode : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
          const auto tokens = tokenizer_->Encode(text, mode);
          RC_ASSERT(tokens.has_value());
          RC_ASSERT(tokenizer_->Decode(*tokens) == text);
        }
      }));
}

TEST_F(OfficialTokenizer, UntrustedTextNeverYieldsAddedTokens) {
  std::vector<std::string> markers;
  std::set<Token> ids;
  for (const Json& entry : file_.at("added_tokens")) {
    markers.push_back(entry.at("content"));
    ids.insert(entry.at("id").get<Token>());
  }
  EXPECT_TRUE(rc::check("added tokens come from trusted bytes only", [&] {
    // Markers whole and in parts, some trusted; the parts of one marker may differ in trust.
    std::vector<std::string> texts;
    std::vector<bool> trusted;
    for (int part = 0; part < 6; ++part) {
      const std::string marker = *rc::gen::elementOf(markers);
      const auto n_bytes = *rc::gen::inRange<std::size_t>(0, marker.size() + 1);
      texts.push_back(marker.substr(0, n_bytes));
      texts.push_back(marker.substr(n_bytes));
      trusted.push_back(*rc::gen::arbitrary<bool>());
      trusted.push_back(*rc::gen::arbitrary<bool>());
    }
    std::vector<TextSpan> spans;
    std::string all;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      spans.push_back({texts[i], trusted[i]});
      all += texts[i];
    }
    const auto tokens = tokenizer_->Encode(spans);
    RC_ASSERT(tokens.has_value());
    RC_ASSERT(tokenizer_->Decode(*tokens) == all);
    std::vector<bool> byte_is_trusted;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      byte_is_trusted.insert(byte_is_trusted.end(), texts[i].size(), trusted[i]);
    }
    std::size_t begin = 0;
    for (const Token token : *tokens) {
      const std::size_t end = begin + tokenizer_->TokenBytes(token).size();
      if (ids.contains(token)) {
        for (std::size_t i = begin; i < end; ++i) {
          RC_ASSERT(byte_is_trusted[i]);
        }
      }
      begin = end;
    }
  }));
}

class FairyTokenizer : public ::testing::Test {
 protected:
  Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ProjectPath("models/fairy"));
};

// greedy.json was written with the official code: its prompts are the golden encodings.
TEST_F(FairyTokenizer, PromptsOfTheOfficialRuns) {
  const Json runs =
      Json::parse(testing::ReadFile(testing::ProjectPath("models/fairy/greedy.json")));
  ASSERT_EQ(runs.size(), 8u);
  for (const Json& run : runs) {
    const std::string prompt = run.at("prompt");
    const bool is_chat = run.at("kind") == "chat";
    const std::string text =
        is_chat ? "<｜begin▁of▁sentence｜><｜User｜>" + prompt + "<｜Assistant｜></think>"
                : "<｜begin▁of▁sentence｜>" + prompt;
    EXPECT_EQ(Encode(tokenizer_, text), run.at("prompt_ids").get<Tokens>()) << prompt;
    EXPECT_EQ(Decode(tokenizer_, run.at("greedy_ids")), run.at("text").get<std::string>());
  }
  EXPECT_EQ(tokenizer_.vocab_size(), 4096);
}

TEST_F(FairyTokenizer, SpansAreOneText) {
  const Token user = tokenizer_.Find("<｜User｜>").value();
  const auto encode = [this](std::vector<TextSpan> spans) {
    const Result<Tokens> tokens = tokenizer_.Encode(spans);
    EXPECT_TRUE(tokens);
    return *tokens;
  };
  EXPECT_EQ(encode({}), Tokens());
  EXPECT_EQ(encode({{"", true}, {"", false}}), Tokens());
  EXPECT_EQ(encode({{"once upon", false}, {" a ti", true}, {"me", false}}),
            Encode(tokenizer_, "once upon a time"));
  EXPECT_EQ(
      encode({{"<｜User｜>", true}, {"<｜User｜>hello", false}}),
      Concatenate({{user}, Encode(tokenizer_, "<｜User｜>hello", SpecialTokens::kPlainText)}));
  EXPECT_EQ(encode({{"<｜Us", true}, {"", false}, {"er｜>", true}}), Tokens{user})
      << "the parts of a trusted token may be neighbours";
  EXPECT_EQ(encode({{"<｜Us", true}, {"er｜>", false}}),
            Encode(tokenizer_, "<｜User｜>", SpecialTokens::kPlainText));
  EXPECT_EQ(encode({{"<", false}, {"｜User｜>", true}}),
            Encode(tokenizer_, "<｜User｜>", SpecialTokens::kPlainText));
  EXPECT_EQ(encode({{"h\xC3", false}, {"\xA9", true}}), Encode(tokenizer_, "h\u00E9"))
      << "a character may reach across spans";
}

TEST_F(FairyTokenizer, InvalidUtf8IsAnErrorThatNamesTheByte) {
  const Result<Tokens> tokens = tokenizer_.Encode("abc\xE2\x82", SpecialTokens::kParse);
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(tokens.error().message, "text: expected UTF-8, found byte 0xE2 at 3");
  const std::vector<TextSpan> spans = {{"abc", true}, {"d\xFF", false}};
  const Result<Tokens> of_spans = tokenizer_.Encode(spans);
  ASSERT_FALSE(of_spans);
  EXPECT_EQ(of_spans.error().message, "text: expected UTF-8, found byte 0xFF at 4");
}

TEST_F(FairyTokenizer, IdsOutOfRange) {
  for (const Token token : {-1, 4096, 1 << 30}) {
    const Result<std::string> text = tokenizer_.Decode(Tokens{5, token});
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(text.error().message, fmt::format("token id: expected 0 to 4095, found {}", token));
    EXPECT_EQ(tokenizer_.TokenBytes(token), "");
    EXPECT_FALSE(tokenizer_.IsSpecial(token));
  }
  EXPECT_EQ(tokenizer_.Find("<｜Use"), std::nullopt);
  EXPECT_EQ(tokenizer_.Find(""), std::nullopt);
}

TEST_F(FairyTokenizer, PartialCharactersAreShownAsReplacement) {
  const Tokens tokens = Encode(tokenizer_, "\U0001F600");
  ASSERT_GT(tokens.size(), 1u) << "not a token of a small vocabulary";
  for (const Token token : tokens) {
    EXPECT_EQ(FindInvalidUtf8(tokenizer_.TokenToText(token)), std::nullopt);
    EXPECT_THAT(tokenizer_.TokenToText(token), HasSubstr("\uFFFD"));
  }
}

TEST_F(FairyTokenizer, ManyThreadsShareIt) {
  const std::string text = "Once upon a time <｜User｜> there was \u4E2D\u6587 " +
                           testing::Repeat(" ", 1000) + "the end.";
  const Tokens expected = Encode(tokenizer_, text);
  std::vector<Tokens> results(4);
  {
    std::vector<std::jthread> threads;
    for (Tokens& result : results) {
      threads.emplace_back([&] {
        for (int repeat = 0; repeat < 50; ++repeat) {
          result = *tokenizer_.Encode(text, SpecialTokens::kParse);
        }
      });
    }
  }
  EXPECT_THAT(results, ::testing::Each(expected));
}

TEST_F(FairyTokenizer, BytesStayWhereTheyAreWhenItIsMoved) {
  const std::string_view bytes = tokenizer_.TokenBytes(1);
  const Tokenizer moved = std::move(tokenizer_);
  EXPECT_EQ(moved.TokenBytes(1).data(), bytes.data());
  EXPECT_EQ(Encode(moved, "<｜end▁of▁sentence｜>"), Tokens{1});
}

// Leftmost first, then longest; no match looks past the text.
TEST(AddedTokens, LeftmostThenLongest) {
  Json json = Json::parse(testing::SmallTokenizerJson());
  Token id = 300;
  json["added_tokens"] = Json::array();
  for (const char* text : {"<a>", "<a><b>", "b><c", "<a><b><c><d>", "<a", "\u20AC\xC3\xA9"}) {
    json["added_tokens"].push_back({{"id", id++}, {"content", text}});
  }
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(Encode(*tokenizer, "<a>"), (Tokens{300}));
  EXPECT_EQ(Encode(*tokenizer, "<a><b>"), (Tokens{301}));
  EXPECT_EQ(Encode(*tokenizer, "<a><b><c>"), (Tokens{301, '<', 'c', '>'}));
  EXPECT_EQ(Encode(*tokenizer, "<a><b><c><d>"), (Tokens{303}));
  EXPECT_EQ(Encode(*tokenizer, "b><c"), (Tokens{302}));
  EXPECT_EQ(Encode(*tokenizer, "<a>b><c"), (Tokens{300, 302}));
  EXPECT_EQ(Encode(*tokenizer, "<<a"), (Tokens{'<', 304}));
  EXPECT_EQ(Encode(*tokenizer, "\u20AC\u00E9"), (Tokens{305}));
}

// Quadratic time was 60 times as long. Processor seconds, so that a busy machine does not matter.
TEST(AddedTokens, HostileTextsTakeNoLongerThanOthers) {
  const auto seconds = [](const std::vector<std::string>& texts) {
    Json json = Json::parse(testing::SmallTokenizerJson());
    json["added_tokens"] = Json::array();
    Token id = 300;
    for (const std::string& text : texts) {
      json["added_tokens"].push_back({{"id", id++}, {"content", text}});
    }
    const std::string file = json.dump();
    const std::clock_t begin = std::clock();
    const Result<Tokenizer> tokenizer = Tokenizer::Parse(file, "tokenizer.json");
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  constexpr std::size_t kTexts = 40'000;
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < kTexts; ++i) plain.push_back(fmt::format("a plain text {:019}", i));
  EXPECT_LT(seconds(testing::CollidingKeys::Make(kTexts)), std::max(0.5, 10 * seconds(plain)));
}

TEST(AddedTokens, HolesBetweenIdsHaveNoBytes) {
  const Result<Tokenizer> tokenizer =
      Tokenizer::Parse(testing::SmallTokenizerJson(), "tokenizer.json");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->TokenBytes(280), "");
  EXPECT_EQ(tokenizer->Decode(Tokens{'a', 280, 300}), "a<end>");
}

TEST(TokenizerLoad, NamesTheMissingFile) {
  const testing::TemporaryDirectory directory;
  const Result<Tokenizer> missing = Tokenizer::Load(directory.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("tokenizer.json"));
  EXPECT_FALSE(Tokenizer::Load(directory.path() / "other.json"));
}

}  // namespace
}  // namespace fathom::tokenizer
