#include "constraint/compiled_constraint.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "constraint/readers/regex.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {
namespace {

// A text of a's and b's has as many states as the next sixteen letters have texts; digits have few.
constexpr std::string_view kRegex = "h[ab]*a[ab]{16}|l[0-9]{1,90}";

// The masks of an answer, and the error that ended it.
struct Course {
  std::vector<std::vector<std::uint64_t>> masks;
  std::string error;
  friend bool operator==(const Course&, const Course&) = default;
};

class CompiledConstraints : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Tokenizer> tokenizer = Tokenizer::Load(testing::ProjectPath("models/fairy"));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = std::make_unique<Tokenizer>(*std::move(tokenizer));
    vocabulary_ = std::make_shared<const ConstraintVocabulary>(
        *tokenizer_, tokenizer_->vocab_size(), std::vector<Token>{Token{1}});
  }

  std::shared_ptr<CompiledConstraint> Compile() const {
    const auto write = [](WorkPace*) {
      auto grammar = std::make_unique<Grammar>();
      grammar->start = *ParseRegex(grammar->pool, kRegex, {.anchored = true});
      return grammar;
    };
    constexpr MatcherLimits kLimits = {.max_states = 1'000};
    return std::make_shared<CompiledConstraint>(vocabulary_, write(nullptr), write,
                                                AnswerOpening::kGrammar, false, kLimits);
  }

  static std::shared_ptr<const Constraint> ConstraintFrom(
      std::shared_ptr<CompiledConstraint> compiled) {
    return *MakeConstraint(std::move(compiled), false, "", nullptr);
  }

  // One token per letter.
  std::vector<Token> Encode(const std::string& text) const {
    std::vector<Token> tokens;
    for (const char c : text) {
      Token token = 0;
      while (vocabulary_->Text(token) != std::string_view(&c, 1)) ++token;
      tokens.push_back(token);
    }
    return tokens;
  }

  static std::string HeavyText(unsigned seed) {
    std::mt19937 random(seed);
    std::string text = "h";
    for (int i = 0; i < 3'000; ++i) text += "ab"[random() % 2];
    return text;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
};

// An answer that is read token by token.
class Answer {
 public:
  Answer(std::shared_ptr<const Constraint> constraint, std::vector<Token> tokens)
      : constraint_(std::move(constraint)),
        tokens_(std::move(tokens)),
        state_(constraint_->Begin()) {}

  // False once the answer has ended.
  bool Step() {
    const Result<TokenMask> mask = constraint_->Mask(state_);
    if (!mask) return Fail(mask.error());
    course_.masks.emplace_back(mask->words().begin(), mask->words().end());
    if (next_ == tokens_.size()) return false;
    Result<ConstraintState> state = constraint_->Advance(state_, tokens_[next_++]);
    if (!state) return Fail(state.error());
    state_ = *std::move(state);
    return true;
  }
  Course Run() {
    while (Step()) {
    }
    return course_;
  }
  const Course& course() const { return course_; }

 private:
  bool Fail(const Error& error) {
    course_.error = error.message;
    return false;
  }

  std::shared_ptr<const Constraint> constraint_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  ConstraintState state_;
  Course course_;
};

TEST_F(CompiledConstraints, AnAnswerEndsByItsOwnWorkOnly) {
  const std::vector<std::string> texts = {HeavyText(1), "l" + std::string(90, '7'), HeavyText(2)};
  std::vector<Course> alone;
  for (const std::string& text : texts) {
    alone.push_back(Answer(ConstraintFrom(Compile()), Encode(text)).Run());
  }
  EXPECT_TRUE(alone[0].error.starts_with("constraint_too_complex")) << alone[0].error;
  EXPECT_EQ(alone[1].error, "");
  EXPECT_EQ(alone[1].masks.size(), texts[1].size() + 1);
  EXPECT_GT(alone[0].masks.size(), 20u);
  EXPECT_LT(alone[0].masks.size(), 3'000u);

  // Interleaved, in both orders, and the light one begun late.
  for (const bool is_reversed : {false, true}) {
    const std::shared_ptr<CompiledConstraint> compiled = Compile();
    std::vector<Answer> answers;
    for (const std::string& text : texts)
      answers.emplace_back(ConstraintFrom(compiled), Encode(text));
    std::vector<bool> lives(answers.size(), true);
    for (int round = 0; lives[0] || lives[1] || lives[2]; ++round) {
      for (std::size_t k = 0; k < answers.size(); ++k) {
        const std::size_t i = is_reversed ? answers.size() - 1 - k : k;
        if (lives[i] && (i != 1 || round >= 100 || !is_reversed)) lives[i] = answers[i].Step();
      }
    }
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].course(), alone[i]) << i;
    // Later ones find what was left.
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(Answer(ConstraintFrom(compiled), Encode(texts[i])).Run(), alone[i]) << i;
    }
  }
}

TEST_F(CompiledConstraints, AnAnswerEndsByItsOwnWorkOnlyWithThreads) {
  const std::vector<std::string> texts = {HeavyText(1), "l" + std::string(90, '7'), HeavyText(2),
                                          "l" + std::string(60, '1')};
  std::vector<Course> alone;
  for (const std::string& text : texts) {
    alone.push_back(Answer(ConstraintFrom(Compile()), Encode(text)).Run());
  }
  const std::shared_ptr<CompiledConstraint> compiled = Compile();
  std::vector<Course> together(texts.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back(
          [&, i] { together[i] = Answer(ConstraintFrom(compiled), Encode(texts[i])).Run(); });
    }
  }
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace fathom::constraint
