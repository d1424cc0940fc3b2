// When guessed experts are read: never, always, or as long as it pays.
#include "experts/streaming/guess_policy.h"

#include <gtest/gtest.h>

namespace fathom::experts {
namespace {

constexpr std::int64_t kWindow = GuessPolicy::kWindowTokens;

// Steps of one token and ten guesses.
void RunSteps(GuessPolicy& policy, std::int64_t n_steps, std::int64_t n_useful, double busy_share) {
  for (std::int64_t i = 0; i < n_steps; ++i) {
    if (policy.Computes()) policy.Count(10, n_useful);
    policy.EndStep(1, 1.0, busy_share);
  }
}

TEST(GuessPolicy, CountsForAWindowBeforeItReads) {
  GuessPolicy policy(GuessMode::kAuto);
  RunSteps(policy, kWindow - 1, 10, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kShadow);
  EXPECT_TRUE(policy.Computes());
  EXPECT_FALSE(policy.Reads());
  RunSteps(policy, 1, 10, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kOn);
  RunSteps(policy, 10 * kWindow, 6, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kOn);
}

TEST(GuessPolicy, RestsWhereGuessesAreWrongAndCountsAgainLater) {
  GuessPolicy policy(GuessMode::kAuto);
  RunSteps(policy, kWindow, 6, 0.5);
  ASSERT_EQ(policy.state(), GuessState::kOn);
  RunSteps(policy, kWindow, 5, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kRest);
  EXPECT_FALSE(policy.Computes());
  RunSteps(policy, GuessPolicy::kRestTokens - 1, 0, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kRest);
  RunSteps(policy, 1, 0, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kShadow);
  RunSteps(policy, kWindow, 10, 0.5);
  EXPECT_EQ(policy.state(), GuessState::kOn);
}

TEST(GuessPolicy, RestsWhereTheDiskIsBusyOrNothingIsMissing) {
  GuessPolicy idle(GuessMode::kAuto), busy(GuessMode::kAuto), full(GuessMode::kAuto);
  RunSteps(idle, kWindow, 10, 0.75);
  RunSteps(busy, kWindow, 10, 0.875);
  for (std::int64_t i = 0; i < kWindow; ++i) full.EndStep(1, 1.0, 0.0);
  EXPECT_EQ(idle.state(), GuessState::kOn);
  EXPECT_EQ(busy.state(), GuessState::kRest);
  EXPECT_EQ(full.state(), GuessState::kRest);
}

TEST(GuessPolicy, KeepsTheModeThatIsAskedFor) {
  GuessPolicy off(GuessMode::kOff), on(GuessMode::kOn);
  RunSteps(off, 2 * kWindow, 10, 0.0);
  RunSteps(on, 2 * kWindow, 0, 1.0);
  EXPECT_EQ(off.state(), GuessState::kOff);
  EXPECT_FALSE(off.Computes());
  EXPECT_EQ(on.state(), GuessState::kOn);
}

}  // namespace
}  // namespace fathom::experts
