#include "engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fathom::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kVocab = 100;

TEST(Validate, AcceptsDefaultsAndTheEdgesOfEveryRange) {
  EXPECT_TRUE(Validate({}, kVocab));
  EXPECT_TRUE(Validate({.temperature = 0,
                        .top_p = 0,
                        .top_k = kVocab,
                        .min_p = 1,
                        .repetition_penalty = 0.01,
                        .presence_penalty = -2,
                        .frequency_penalty = 2,
                        .logit_bias = {{0, 1000}, {99, -INFINITY}},
                        .top_logprobs = 20,
                        .max_tokens = 5,
                        .min_tokens = 5,
                        .stop_strings = {std::string(2048, 'x')},
                        .stop_tokens = {0, 99}},
                       kVocab));
  EXPECT_TRUE(Validate(
      {.temperature = 2, .repetition_penalty = 100, .top_logprobs = 0, .max_tokens = 0}, kVocab));
}

struct Case {
  SamplingParameters parameters;
  std::string field;
  std::string expected;
  std::string found;
};

TEST(Validate, NamesFieldRangeAndValue) {
  const double nan = std::nan("");
  const Case cases[] = {
      {{.temperature = -0.1}, "temperature", "0 to 2", "-0.1"},
      {{.temperature = 2.5}, "temperature", "0 to 2", "2.5"},
      {{.temperature = nan}, "temperature", "0 to 2", "nan"},
      {{.top_p = -0.1}, "top_p", "0 to 1", "-0.1"},
      {{.top_p = 1.01}, "top_p", "0 to 1", "1.01"},
      {{.top_p = nan}, "top_p", "0 to 1", "nan"},
      {{.top_k = -1}, "top_k", "0 to 100", "-1"},
      {{.top_k = 101}, "top_k", "0 to 100", "101"},
      {{.min_p = -0.5}, "min_p", "0 to 1", "-0.5"},
      {{.min_p = 1.5}, "min_p", "0 to 1", "1.5"},
      {{.repetition_penalty = 0}, "repetition_penalty", "0.01 to 100", "found 0"},
      {{.repetition_penalty = INFINITY}, "repetition_penalty", "0.01 to 100", "inf"},
      {{.presence_penalty = 3}, "presence_penalty", "-2 to 2", "3"},
      {{.frequency_penalty = -3}, "frequency_penalty", "-2 to 2", "-3"},
      {{.reasoning_budget = TokenBudget{.n_tokens = -1}}, "reasoning_budget", "at least 0", "-1"},
      {{.reasoning_budget = TokenBudget{.end = 100}}, "reasoning_budget", "0 to 99", "100"},
      {{.logit_bias = {{100, 1.0}}}, "logit_bias", "0 to 99", "100"},
      {{.logit_bias = {{-1, 1.0}}}, "logit_bias", "0 to 99", "-1"},
      {{.logit_bias = {{7, nan}}}, "logit_bias of token 7", "a number", "nan"},
      {{.top_logprobs = 21}, "top_logprobs", "0 to 20", "21"},
      {{.top_logprobs = -1}, "top_logprobs", "0 to 20", "-1"},
      {{.max_tokens = -1}, "max_tokens", "at least 0", "-1"},
      {{.min_tokens = -1}, "min_tokens", "at least 0", "-1"},
      {{.max_tokens = 4, .min_tokens = 5}, "min_tokens", "at most max_tokens = 4", "5"},
      {{.stop_strings = {"a", ""}}, "stop_strings[1]", "1 to 2048 bytes", "found 0"},
      {{.stop_strings = {std::string(2049, 'x')}}, "stop_strings[0]", "1 to 2048", "2049"},
      {{.stop_strings = std::vector<std::string>(65, "x")}, "stop_strings", "at most 64", "65"},
      {{.stop_tokens = {3, 100}}, "stop_tokens", "0 to 99", "100"},
  };
  for (const Case& wrong : cases) {
    const Status status = Validate(wrong.parameters, kVocab);
    ASSERT_FALSE(status) << wrong.field << " " << wrong.found;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr(wrong.field + ":"),
                                              HasSubstr(wrong.expected), HasSubstr(wrong.found)));
  }
}

TEST(FinishReason, Names) {
  EXPECT_EQ(Name(FinishReason::kStop), "stop");
  EXPECT_EQ(Name(FinishReason::kStopString), "stop_string");
  EXPECT_EQ(Name(FinishReason::kLength), "length");
  EXPECT_EQ(Name(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace fathom::engine
