// Lengths, arrivals and prompts: their distributions, and their dependence on the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/load/load_plan.h"

namespace fathom::measure::load {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 20'000;

struct Moments {
  double mean = 0;
  double deviation = 0;
};

template <class Draw>
Moments ComputeMoments(Draw draw) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = static_cast<double>(draw());
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, std::sqrt(squares / kDraws - mean * mean)};
}

RandomStream Stream(std::uint64_t seed = 1) {
  return RandomStream(seed, RandomPurpose::kRequest, 0);
}

// Tolerances are 5 standard errors of kDraws draws, with a fixed seed.
TEST(RandomStreamTest, HasTheMomentsOfItsDistributions) {
  RandomStream random = Stream();
  const double error = 5 / std::sqrt(kDraws);
  const Moments uniform = ComputeMoments([&] { return random.Uniform(); });
  EXPECT_NEAR(uniform.mean, 0.5, error * uniform.deviation);
  EXPECT_NEAR(uniform.deviation, std::sqrt(1.0 / 12), 0.01);
  const Moments normal = ComputeMoments([&] { return random.Normal(); });
  EXPECT_NEAR(normal.mean, 0, error);
  EXPECT_NEAR(normal.deviation, 1, error);
  for (const double shape : {0.25, 1.0, 4.0}) {
    const Moments gamma = ComputeMoments([&] { return random.Gamma(shape); });
    EXPECT_NEAR(gamma.mean, 1, error / std::sqrt(shape)) << shape;
    EXPECT_NEAR(gamma.deviation, 1 / std::sqrt(shape), 0.1 / std::sqrt(shape)) << shape;
  }
}

TEST(LengthTest, FixedIsAlwaysTheSame) {
  const Result<Length> length = ParseLength("512");
  ASSERT_TRUE(length);
  RandomStream random = Stream();
  EXPECT_EQ(length->Draw(random), 512);
  EXPECT_EQ(length->Draw(random), 512);
}

TEST(LengthTest, UniformReachesBothEnds) {
  const Result<Length> length = ParseLength("uniform:3:6");
  ASSERT_TRUE(length);
  RandomStream random = Stream();
  std::set<std::int64_t> seen;
  const Moments moments = ComputeMoments([&] {
    const std::int64_t drawn = length->Draw(random);
    seen.insert(drawn);
    return drawn;
  });
  EXPECT_THAT(seen, ::testing::ElementsAre(3, 4, 5, 6));
  EXPECT_NEAR(moments.mean, 4.5, 5 * moments.deviation / std::sqrt(kDraws));
}

TEST(LengthTest, LogNormalHasItsMean) {
  const Result<Length> length = ParseLength("lognormal:800:0.7");
  ASSERT_TRUE(length);
  RandomStream random = Stream();
  std::vector<double> logarithms;
  const Moments moments = ComputeMoments([&] {
    const std::int64_t drawn = length->Draw(random);
    logarithms.push_back(std::log(static_cast<double>(drawn)));
    return drawn;
  });
  EXPECT_NEAR(moments.mean, 800, 5 * moments.deviation / std::sqrt(kDraws));
  std::size_t next = 0;
  EXPECT_NEAR(ComputeMoments([&] { return logarithms[next++]; }).deviation, 0.7, 0.02);
}

TEST(LengthTest, LogNormalIsNeverEmpty) {
  const Result<Length> length = ParseLength("lognormal:1:4");
  ASSERT_TRUE(length);
  RandomStream random = Stream();
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t drawn = length->Draw(random);
    ASSERT_GE(drawn, 1);
    ASSERT_LE(drawn, kMaxTokens);
  }
}

TEST(LengthTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "0", "-1", "1.5", "12x", "4194305", "uniform:", "uniform:5", "uniform:6:5",
        "uniform:0:5", "uniform:1:2:3", "lognormal:100", "lognormal:0:1", "lognormal:10:5",
        "lognormal:10:-1", "lognormal:nan:1", "normal:5:1"}) {
    const Result<Length> length = ParseLength(text);
    ASSERT_FALSE(length) << text;
    EXPECT_THAT(length.error().message, HasSubstr(std::string("found \"") + text + "\""));
  }
}

TEST(ArrivalTest, ReadsKinds) {
  EXPECT_EQ(ParseArrival("constant")->shape, std::nullopt);
  EXPECT_EQ(ParseArrival("poisson")->shape, 1.0);
  EXPECT_EQ(ParseArrival("gamma:0.25")->shape, 0.25);
  for (const char* text : {"", "gamma", "gamma:", "gamma:0", "gamma:x", "gamma:1x", "gamma:nan"}) {
    EXPECT_FALSE(ParseArrival(text)) << text;
  }
}

TEST(ArrivalTest, ConstantGapsAreAllTheSame) {
  ArrivalTimes times({.rate = 4, .arrival = {.shape = std::nullopt}}, 7);
  EXPECT_DOUBLE_EQ(times.Next(), 0);
  EXPECT_DOUBLE_EQ(times.Next(), 0.25);
  EXPECT_DOUBLE_EQ(times.Next(), 0.5);
}

TEST(ArrivalTest, GapsHaveTheRateAndTheSpreadAskedFor) {
  for (const char* kind : {"poisson", "gamma:0.25", "gamma:4"}) {
    const Arrival arrival = *ParseArrival(kind);
    ArrivalTimes times({.rate = 2, .arrival = arrival}, 7);
    double last = times.Next();
    const Moments gaps = ComputeMoments([&] {
      const double now = times.Next();
      EXPECT_GE(now, last);
      return now - std::exchange(last, now);
    });
    const double deviation = 0.5 / std::sqrt(*arrival.shape);
    EXPECT_NEAR(gaps.mean, 0.5, 5 * deviation / std::sqrt(kDraws)) << kind;
    EXPECT_NEAR(gaps.deviation, deviation, 0.1 * deviation) << kind;
  }
}

TEST(ArrivalTest, TheSeedDecides) {
  const LoadLevel level = {.rate = 2};
  ArrivalTimes one(level, 7), same(level, 7), other(level, 8);
  one.Next(), same.Next(), other.Next();
  const double first = one.Next();
  EXPECT_EQ(first, same.Next());
  EXPECT_NE(first, other.Next());
}

TEST(ConversationTest, TheSeedAndTheIndexDecide) {
  WorkloadOptions options = {.input = *ParseLength("uniform:10:20"), .seed = 5};
  const std::vector<Token> tokens = MakeConversation(options, 3).front().tokens;
  MakeConversation(options, 2);
  EXPECT_EQ(MakeConversation(options, 3).front().tokens, tokens);
  EXPECT_NE(MakeConversation(options, 4).front().tokens, tokens);
  options.seed = 6;
  EXPECT_NE(MakeConversation(options, 3).front().tokens, tokens);
}

TEST(ConversationTest, TokensAreInTheVocabularyAndNotSpecial) {
  const WorkloadOptions options = {.input = {.low = 10'000}, .output = {.low = 9}, .vocab_size = 8};
  const std::vector<Turn> turns = MakeConversation(options, 0);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].n_output, 9);
  EXPECT_EQ(turns[0].tokens.size(), 10'000u);
  EXPECT_EQ(std::set<Token>(turns[0].tokens.begin(), turns[0].tokens.end()),
            (std::set<Token>{3, 4, 5, 6, 7}));
}

TEST(ConversationTest, GroupsShareTheirPrefixAndNothingElse) {
  const WorkloadOptions options = {.input = {.low = 20}, .shared_prefix = 50, .n_groups = 2};
  const auto tokens = [&](std::int64_t index) {
    return MakeConversation(options, index).front().tokens;
  };
  const auto shared = [](const std::vector<Token>& a, const std::vector<Token>& b) {
    return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  };
  EXPECT_EQ(tokens(0).size(), 70u);
  EXPECT_GE(shared(tokens(0), tokens(2)), 50);
  EXPECT_LT(shared(tokens(0), tokens(2)), 60);
  EXPECT_LT(shared(tokens(0), tokens(1)), 10);
}

TEST(ConversationTest, OnlyTheFirstTurnHasThePrefix) {
  const std::vector<Turn> turns =
      MakeConversation({.input = {.low = 4}, .shared_prefix = 6, .n_turns = 3}, 0);
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].tokens.size(), 10u);
  EXPECT_EQ(turns[1].tokens.size(), 4u);
  EXPECT_EQ(turns[2].tokens.size(), 4u);
}

TEST(ConversationTest, WordsAreAsManyAsTokens) {
  const std::string words = FormatWords({3, 4, 3});
  EXPECT_EQ(std::count(words.begin(), words.end(), ' '), 2);
  EXPECT_EQ(words.substr(0, words.find(' ')), words.substr(words.rfind(' ') + 1));
  EXPECT_EQ(FormatWords({}), "");
}

TEST(LoadLevelTest, HasAName) {
  EXPECT_EQ((LoadLevel{.concurrency = 8}).Name(), "8 at once");
  EXPECT_EQ((LoadLevel{.rate = 0.5}).Name(), "0.5 req/s");
}

}  // namespace
}  // namespace fathom::measure::load
