// One budget for constraints: steps and bytes of compiling, paces that end work, and memory that is
// taken back while answers go on.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/constraint_memory.h"
#include "constraint/work_meter.h"
#include "json/json_value.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {
namespace {

// Goes on for so many questions.
class CountedPace : public WorkPace {
 public:
  explicit CountedPace(int n_goes_on) : n_left_(n_goes_on) {}
  bool GoesOn() override {
    ++n_asked_;
    return n_left_-- > 0;
  }
  int n_asked() const { return n_asked_; }

 private:
  int n_left_;
  int n_asked_ = 0;
};

std::string PatternsOfLengths(int n) {
  std::string schema = R"({"patternProperties":{)";
  for (int i = 0; i < n; ++i) {
    schema += fmt::format(R"({}"[a-m]{{{}}}":{{"minimum":{}}})", i == 0 ? "" : ",", i, i);
  }
  return schema + "}}";
}

class ConstraintLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<Tokenizer> tokenizer = Tokenizer::Load(testing::ProjectPath("models/fairy"));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
      if (tokenizer->TokenBytes(token) == "x") x_ = token;
    }
    vocabulary_ = std::make_shared<ConstraintVocabulary>(*tokenizer, tokenizer->vocab_size(),
                                                         std::vector<Token>{Token{1}});
  }

  static ConstraintSpec Schema(const std::string& text) {
    return {.content = {.kind = ContentConstraint::Kind::kJsonSchema, .schema = *ParseJson(text)}};
  }
  static ConstraintSpec Regex(std::string text) {
    return {.content = {.kind = ContentConstraint::Kind::kRegex, .text = std::move(text)}};
  }

  ConstraintError Refusal(const ConstraintSpec& spec) const {
    ConstraintCompiler compiler(vocabulary_);
    const auto compiled = compiler.Compile(spec);
    EXPECT_FALSE(compiled);
    EXPECT_EQ(compiler.memory_used(), 0u);
    return compiled ? ConstraintError() : compiled.error();
  }

  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  Token x_ = 0;
};

TEST_F(ConstraintLimits, TooManyStepsAreRefusedWhereTheyAreSpent) {
  const std::string many = PatternsOfLengths(64);
  const ConstraintError whole = Refusal(Schema(many));
  EXPECT_EQ(whole.code, ConstraintErrorCode::kTooLarge);
  EXPECT_NE(whole.message.find("compiles in 6000000 steps"), std::string::npos) << whole.message;
  const ConstraintError part =
      Refusal(Schema(R"({"properties":{"a":{"type":"string"},"b":)" + many + "}}"));
  ASSERT_EQ(part.issues.size(), 1u);
  EXPECT_EQ(part.issues[0].pointer, "/properties/b");
  ConstraintCompiler compiler(vocabulary_);
  EXPECT_TRUE(compiler.Compile(Schema(PatternsOfLengths(16))));
}

TEST_F(ConstraintLimits, TooManyBytesAreRefused) {
  std::string items;
  for (int i = 0; i < 20'000; ++i) {
    items += fmt::format(R"({}{{"a":{{"b":{}}},"c":[{}]}})", i == 0 ? "" : ",", i, i);
  }
  const ConstraintError error = Refusal(Schema(R"({"enum":[)" + items + "]}"));
  EXPECT_EQ(error.code, ConstraintErrorCode::kTooLarge);
  EXPECT_NE(error.message.find("within 48 MiB"), std::string::npos) << error.message;
}

TEST_F(ConstraintLimits, AnEnumOfAllNumbersItMayHaveCompiles) {
  std::string items = "0";
  for (int i = 1; i < 50'000; ++i) items += fmt::format(",{}", 7 * i);
  ConstraintCompiler compiler(vocabulary_);
  const auto compiled = compiler.Compile(Schema(R"({"enum":[)" + items + "]}"));
  ASSERT_TRUE(compiled) << compiled.error().message;
}

TEST_F(ConstraintLimits, AGrammarWhoseTextHasNoBeginningInTimeIsRefused) {
  std::string grammar = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) grammar += fmt::format("r{} ::= r{}? r{}?\n", i, i + 1, i + 1);
  grammar += "r60 ::= \"a\"\n";
  const ConstraintError error =
      Refusal({.content = {.kind = ContentConstraint::Kind::kGbnf, .text = grammar}});
  EXPECT_EQ(error.code, ConstraintErrorCode::kTooLarge) << error.message;
}

TEST_F(ConstraintLimits, APaceEndsCompilingAndIsAskedOften) {
  ConstraintCompiler compiler(vocabulary_);
  CountedPace pace(100);
  const auto stopped = compiler.Compile(Schema(PatternsOfLengths(64)), &pace);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ConstraintErrorCode::kStopped);
  EXPECT_EQ(pace.n_asked(), 101);
  CountedPace patient(1'000'000);
  EXPECT_FALSE(compiler.Compile(Schema(PatternsOfLengths(64)), &patient));
  EXPECT_GT(patient.n_asked(), 5'000);
}

// An ended mask leaves an automaton that is not to be used: the next one is found in another.
TEST_F(ConstraintLimits, APaceEndsAMaskWhichIsFoundAgain) {
  ConstraintCompiler compiler(vocabulary_);
  const ConstraintSpec spec = Regex("(.*x.{200}y)*");
  const auto constraint = *compiler.Compile(spec);
  CountedPace pace(1);
  const Result<TokenMask> stopped = constraint->Mask(constraint->Begin(), &pace);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
  const Result<TokenMask> found = constraint->Mask(constraint->Begin());
  ASSERT_TRUE(found) << found.error().message;
  const auto alone = *ConstraintCompiler(vocabulary_).Compile(spec);
  EXPECT_TRUE(std::ranges::equal(found->words(), alone->Mask(alone->Begin())->words()));
}

// Answers of many forms in turn, with less memory than they have automata, and with enough.
TEST_F(ConstraintLimits, AnswersAreTheSameWhereMemoryIsTakenBack) {
  constexpr std::size_t kLittle = std::size_t{12} << 20;
  constexpr int kAnswers = 6;
  constexpr int kTokens = 12;
  ConstraintCompiler little(vocabulary_, kLittle);
  ConstraintCompiler much(vocabulary_);
  std::vector<std::shared_ptr<const Constraint>> pairs[2];
  std::vector<ConstraintState> states[2];
  for (int i = 0; i < kAnswers; ++i) {
    const ConstraintSpec spec = Regex(fmt::format("(.*x.{{{}}}y)*", 12 + i));
    for (int side = 0; side < 2; ++side) {
      pairs[side].push_back(*(side == 0 ? little : much).Compile(spec));
      states[side].push_back(pairs[side].back()->Begin());
    }
  }
  for (int n = 0; n < kTokens; ++n) {
    for (int i = 0; i < kAnswers; ++i) {
      std::optional<TokenMask> masks[2];
      for (int side = 0; side < 2; ++side) {
        const Constraint& constraint = *pairs[side][static_cast<std::size_t>(i)];
        ConstraintState& state = states[side][static_cast<std::size_t>(i)];
        const Result<TokenMask> mask = constraint.Mask(state);
        ASSERT_TRUE(mask) << mask.error().message;
        masks[side] = *mask;
        state = *constraint.Advance(state, x_);
      }
      ASSERT_TRUE(std::ranges::equal(masks[0]->words(), masks[1]->words())) << n << " " << i;
      EXPECT_LE(little.memory_used(), kLittle);
    }
  }
  EXPECT_GT(much.memory_used(), kLittle);
}

TEST_F(ConstraintLimits, MemoryThatNobodyUsesMakesRoom) {
  constexpr std::size_t kLittle = std::size_t{4} << 20;
  ConstraintCompiler compiler(vocabulary_, kLittle);
  for (int i = 0; i < 60; ++i) {
    const auto compiled = compiler.Compile(Regex(fmt::format("(.*x.{{{}}}y)*", 12 + i)));
    ASSERT_TRUE(compiled) << compiled.error().message;
    ASSERT_TRUE((*compiled)->Mask((*compiled)->Begin()));
    EXPECT_LE(compiler.memory_used(), kLittle);
  }
}

TEST_F(ConstraintLimits, OneAnswerAloneMayHaveHalfOfTheMemory) {
  constexpr std::size_t kLittle = std::size_t{1} << 20;
  ConstraintCompiler compiler(vocabulary_, kLittle);
  const auto constraint = *compiler.Compile(Regex("(.*x.{60}y)*"));
  ConstraintState state = constraint->Begin();
  std::optional<Error> error;
  for (int n = 0; n < 200 && !error; ++n) {
    if (const Result<TokenMask> mask = constraint->Mask(state); !mask) {
      error = mask.error();
    } else if (Result<ConstraintState> next = constraint->Advance(state, x_); !next) {
      error = next.error();
    } else {
      state = *std::move(next);
    }
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kResourceExhausted) << error->message;
}

// --- The memory alone ---

class CountedOwner : public FreeableMemory {
 public:
  explicit CountedOwner(std::unique_ptr<ConstraintMemory::Account> account)
      : account_(std::move(account)) {}
  bool TryFree() override {
    account_.reset();
    return true;
  }
  bool has_memory() const { return account_ != nullptr; }

 private:
  std::unique_ptr<ConstraintMemory::Account> account_;
};

TEST(ConstraintMemory, TheLastUsedIsFreedLast) {
  const auto memory = std::make_shared<ConstraintMemory>(200, nullptr);  // half for the last work
  std::vector<std::shared_ptr<CountedOwner>> owners;
  for (int i = 0; i < 3; ++i) {
    auto account = std::make_unique<ConstraintMemory::Account>(memory);
    ConstraintMemory::Account& made = *account;
    ASSERT_TRUE(made.Reach(30, nullptr));
    owners.push_back(std::make_shared<CountedOwner>(std::move(account)));
    made.SetOwner(owners.back());
    made.EndWork(30);
  }
  EXPECT_EQ(memory->used(), 90u);
  ConstraintMemory::Account fourth(memory);
  ASSERT_TRUE(fourth.Reach(30, nullptr));
  EXPECT_FALSE(owners[0]->has_memory());
  EXPECT_TRUE(owners[1]->has_memory());
  EXPECT_EQ(memory->used(), 90u);
  // The only work that goes on gets what it asks for, when nothing is left to free.
  ASSERT_TRUE(fourth.Reach(180, nullptr));
  EXPECT_FALSE(owners[2]->has_memory());
  EXPECT_EQ(memory->used(), 180u);
}

TEST(ConstraintMemory, WorkBesideOtherWorkWaitsUntilItsPaceEndsIt) {
  const auto memory = std::make_shared<ConstraintMemory>(200, nullptr);
  ConstraintMemory::Account first(memory);
  ASSERT_TRUE(first.Reach(90, nullptr));
  ConstraintMemory::Account second(memory);
  CountedPace pace(2);
  EXPECT_FALSE(second.Reach(20, &pace));
  EXPECT_EQ(pace.n_asked(), 3);
  first.EndWork(50);
  EXPECT_TRUE(second.Reach(20, &pace));
}

}  // namespace
}  // namespace fathom::constraint
