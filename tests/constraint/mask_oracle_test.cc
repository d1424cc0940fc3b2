// Masks compared with an oracle that reads every token of the vocabulary by itself, at random
// states. FATHOM_MASK_STATES sets the number of states (docs/spec/constrained.md 5.3 asks for
// 2,000 with the full vocabulary, which takes minutes).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/masks/mask_builder.h"
#include "constraint/masks/vocabulary.h"
#include "tests/constraint/mask_oracle_cases.h"
#include "tests/constraint/naive_recognizer.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {
namespace {

constexpr Token kEndToken = 1;

// Reads all tokens, each by itself; those that begin alike share the states behind their common
// bytes, as copies of a state are snapshots.
class OneByOne {
 public:
  OneByOne(Matcher& matcher, const ConstraintVocabulary& vocabulary)
      : matcher_(matcher), vocabulary_(vocabulary) {
    for (Token token = 0; token < vocabulary.vocab_size(); ++token) sorted_.push_back(token);
    std::ranges::sort(sorted_, {}, [&](Token token) { return vocabulary_.Text(token); });
  }

  TokenSet Allowed(const MatcherState& state) {
    TokenSet allowed(vocabulary_.vocab_size());
    std::vector<MatcherState> behind = {state};  // behind the first bytes of `last`
    std::string_view last;
    for (const Token token : sorted_) {
      const std::string_view text = vocabulary_.Text(token);
      MatcherState next;
      matcher_.Reset();
      if (matcher_.StepToken(state, static_cast<std::uint32_t>(token), !text.empty(), next)) {
        allowed.Add(token);
      }
      if (text.empty()) continue;
      const auto common =
          static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
      last = text;
      if (common >= behind.size()) continue;  // the byte that was refused is one of this text, too
      behind.resize(common + 1);
      while (behind.size() <= text.size()) {
        matcher_.Reset();
        const auto byte = static_cast<std::uint8_t>(text[behind.size() - 1]);
        if (!matcher_.Step(behind.back(), byte, next)) break;
        behind.push_back(next);
      }
      if (behind.size() > text.size()) allowed.Add(token);
    }
    return allowed;
  }

 private:
  Matcher& matcher_;
  const ConstraintVocabulary& vocabulary_;
  std::vector<Token> sorted_;
};

// The masks of one grammar, built in all ways.
class MaskOracle {
 public:
  MaskOracle(const testing::MaskCase& mask_case, const ConstraintVocabulary& vocabulary)
      : vocabulary_(vocabulary),
        takes_whole_tokens_(mask_case.text.find("<[") != std::string_view::npos),
        grammar_(testing::CompileMaskCase(mask_case, vocabulary)),
        matcher_(*grammar_),
        cached_(matcher_, vocabulary, std::size_t{32} << 20),
        uncached_(matcher_, vocabulary, 1),
        plain_grammar_(testing::CompileMaskCase(mask_case, vocabulary)),
        plain_matcher_(*plain_grammar_, {.max_mask_steps = kMaxPlainSteps}),
        plain_(plain_matcher_, vocabulary, 1),
        one_by_one_(matcher_, vocabulary) {
    plain_.set_is_plain(true);
  }

  // Compares the masks of `n_states` states of random texts.
  void Compare(int n_states, std::mt19937& random) {
    constexpr int kLongestText = 60;
    constexpr int kStatesOfText = 12;
    while (n_states > 0) {
      Begin();
      for (int n = 0, n_compared = 0; n < kLongestText && n_compared < kStatesOfText; ++n) {
        const auto mask = cached_.Build(state_);
        ASSERT_NE(mask, nullptr) << shown_;
        ASSERT_GT(mask->n_tokens, 0) << "no token may follow " << shown_;
        if (random() % 3 == 0 && n_states > 0) {
          ASSERT_NO_FATAL_FAILURE(CompareState(mask->tokens, random));
          ++n_compared;
          --n_states;
        }
        const Token token = Draw(mask->tokens, random);
        if (token == kEndToken) break;
        ASSERT_NO_FATAL_FAILURE(Advance(token));
      }
    }
  }

  std::int64_t n_hits() const { return cached_.n_hits(); }

 private:
  // Reading all texts takes more steps than a mask may.
  static constexpr std::size_t kMaxPlainSteps = 100'000'000;

  void Begin() {
    state_ = matcher_.Begin();
    plain_state_ = plain_matcher_.Begin();
    symbols_.clear();
    shown_.clear();
  }

  void Advance(Token token) {
    MatcherState next;
    ASSERT_TRUE(cached_.Advance(state_, token, next)) << shown_ << token;
    state_ = std::move(next);
    ASSERT_TRUE(plain_.Advance(plain_state_, token, next)) << shown_ << token;
    plain_state_ = std::move(next);
    const std::string_view text = vocabulary_.Text(token);
    for (const char c : text) symbols_.push_back({false, static_cast<std::uint8_t>(c)});
    if (text.empty()) symbols_.push_back({true, static_cast<std::uint32_t>(token)});
    shown_ += text.empty() ? fmt::format("<[{}]>", token) : std::string(text);
  }

  void CompareState(const TokenSet& mask, std::mt19937& random) {
    const auto uncached = uncached_.Build(state_);
    ASSERT_NE(uncached, nullptr) << shown_;
    ASSERT_EQ(mask.words(), uncached->tokens.words()) << shown_;
    const auto plain = plain_.Build(plain_state_);
    ASSERT_NE(plain, nullptr) << shown_;
    ASSERT_EQ(mask.words(), plain->tokens.words()) << shown_;
    TokenSet expected = one_by_one_.Allowed(state_);
    // Where the text is complete, its end is allowed, and only there.
    if (state_.accepts) expected.Add(kEndToken);
    for (Token token = 0; token < vocabulary_.vocab_size(); ++token) {
      ASSERT_EQ(mask.Has(token), expected.Has(token))
          << token << " '" << vocabulary_.Text(token) << "' behind " << shown_;
    }
    constexpr int kSamples = 50;
    for (int i = 0; i < kSamples; ++i) {
      const auto token =
          static_cast<Token>(random() % static_cast<std::uint64_t>(vocabulary_.vocab_size()));
      MatcherState next;
      const bool is_end = token == kEndToken && state_.accepts;
      ASSERT_EQ(mask.Has(token), is_end || cached_.Advance(state_, token, next)) << token << shown_;
    }
    // The other oracle is slow: for short texts.
    constexpr std::size_t kShortText = 60;
    if (symbols_.size() > kShortText || takes_whole_tokens_) return;
    ASSERT_EQ(state_.accepts, testing::NaiveRecognizer(*grammar_).Accepts(symbols_)) << shown_;
  }

  // Half of the tokens are short or end what is open, so that texts come to their end.
  Token Draw(const TokenSet& mask, std::mt19937& random) {
    std::vector<Token> all;
    std::vector<Token> ends;
    for (Token token = 0; token < vocabulary_.vocab_size(); ++token) {
      if (!mask.Has(token)) continue;
      all.push_back(token);
      const std::string_view text = vocabulary_.Text(token);
      if (text.empty() || text.find_first_of("\"}],:<>/\n") < 1) ends.push_back(token);
    }
    const std::vector<Token>& drawn = !ends.empty() && random() % 2 == 0 ? ends : all;
    return drawn[random() % drawn.size()];
  }

  const ConstraintVocabulary& vocabulary_;
  const bool takes_whole_tokens_;  // then the bytes of a text do not tell how it was read
  const std::unique_ptr<Grammar> grammar_;
  Matcher matcher_;
  MaskBuilder cached_;
  MaskBuilder uncached_;
  // A matcher of its own, with limits of its own.
  const std::unique_ptr<Grammar> plain_grammar_;
  Matcher plain_matcher_;
  MaskBuilder plain_;
  OneByOne one_by_one_;
  MatcherState state_;
  MatcherState plain_state_;
  std::vector<testing::TextSymbol> symbols_;
  std::string shown_;
};

// The number of states of a test, in all.
int NumberOfStates(int otherwise) {
  const char* const wanted = std::getenv("FATHOM_MASK_STATES");
  return wanted == nullptr ? otherwise : std::atoi(wanted);
}

// Every n-th case if there are fewer states than cases.
void CompareCases(const std::filesystem::path& tokenizer_path, std::int64_t vocab_size,
                  int n_states) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(tokenizer_path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const ConstraintVocabulary vocabulary(*tokenizer, std::max(vocab_size, tokenizer->vocab_size()),
                                        std::vector<Token>{kEndToken});
  const auto cases = testing::MaskCases();
  const auto n_cases = std::min(static_cast<int>(cases.size()), n_states);
  std::int64_t n_hits = 0;
  for (int i = 0; i < n_cases; ++i) {
    const testing::MaskCase& mask_case =
        cases[static_cast<std::size_t>(i) * cases.size() / static_cast<std::size_t>(n_cases)];
    SCOPED_TRACE(mask_case.name);
    std::mt19937 random(static_cast<unsigned>(i) + 1);
    MaskOracle oracle(mask_case, vocabulary);
    if (::testing::Test::HasFailure()) return;
    oracle.Compare(n_states / n_cases, random);
    if (::testing::Test::HasFailure()) return;
    n_hits += oracle.n_hits();
  }
  EXPECT_GT(n_hits, 0) << "the cache was not tested";
}

TEST(MaskOracle, EmbeddedVocabulary) {
  CompareCases(testing::ProjectPath("models/fairy"), 0, NumberOfStates(1000));
}

TEST(MaskOracle, FullVocabulary) {
  const auto path = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  constexpr std::int64_t kVocabSize = 129'280;
  CompareCases(*path, kVocabSize, NumberOfStates(12));
}

}  // namespace
}  // namespace fathom::constraint
