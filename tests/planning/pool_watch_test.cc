#include "planning/pool_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace fathom::planning {
namespace {

using std::chrono::seconds;

constexpr PressureReading kCalm;
constexpr PressureReading kShort = {.stalled = .2};
constexpr std::int64_t kSlot = 1000;

class PoolGovernorTest : public ::testing::Test {
 protected:
  std::int64_t At(int second, const PressureReading& reading) {
    return governor_.Decide(reading, PoolGovernor::Clock::time_point(seconds(second)));
  }

  PoolGovernor governor_{1000, 24, kSlot};
};

TEST_F(PoolGovernorTest, KeepsAllSlotsWithoutPressure) {
  for (int t = 0; t < 600; t += 2) EXPECT_EQ(At(t, kCalm), 1000);
}

TEST_F(PoolGovernorTest, EachReadingOfPressureTakesATenth) {
  EXPECT_EQ(At(0, kShort), 900);
  EXPECT_EQ(At(2, kShort), 810);
  EXPECT_EQ(At(4, {.hit_limit = true}), 729);
  EXPECT_EQ(At(6, {.below_reserve = true}), 656);
  EXPECT_EQ(At(8, {.stalled = .1}), 656);  // at most 10 % is no pressure
}

TEST_F(PoolGovernorTest, EndsAtTheLeastPoolAndSaysSo) {
  int t = 0;
  while (governor_.slots() > 24) At(t += 2, kShort);
  EXPECT_EQ(governor_.slots(), 24);
  EXPECT_FALSE(governor_.is_exhausted());
  EXPECT_EQ(At(t += 2, kShort), 24);
  EXPECT_TRUE(governor_.is_exhausted());
  EXPECT_EQ(At(t += 60, kCalm), 44);
  EXPECT_FALSE(governor_.is_exhausted());
}

TEST_F(PoolGovernorTest, DropsAtOnceWhatIsSwapped) {
  EXPECT_EQ(At(0, {.swapped = 1}), 900);
  EXPECT_EQ(At(2, {.swapped = 300 * kSlot + 1}), 599);
  EXPECT_EQ(At(4, {.swapped = std::int64_t{1} << 60}), 24);
}

TEST_F(PoolGovernorTest, AllowsNoGuessesUntilAMinuteOfCalm) {
  EXPECT_TRUE(governor_.allows_guesses());
  At(0, kShort);
  EXPECT_FALSE(governor_.allows_guesses());
  At(58, kCalm);
  EXPECT_FALSE(governor_.allows_guesses());
  At(60, kCalm);
  EXPECT_TRUE(governor_.allows_guesses());
  At(64, {.swapped = 1});
  EXPECT_FALSE(governor_.allows_guesses());
}

TEST_F(PoolGovernorTest, GrowsSlowlyAfterAMinuteOfCalm) {
  EXPECT_EQ(At(0, kShort), 900);
  for (int t = 2; t < 60; t += 2) EXPECT_EQ(At(t, kCalm), 900);
  EXPECT_EQ(At(60, kCalm), 920);
  EXPECT_EQ(At(68, kCalm), 920);
  EXPECT_EQ(At(70, kCalm), 940);
  EXPECT_EQ(At(80, kCalm), 960);
  EXPECT_EQ(At(90, kCalm), 980);
  EXPECT_EQ(At(100, kCalm), 1000);
  EXPECT_EQ(At(110, kCalm), 1000);
  // Pressure starts the minute anew.
  EXPECT_EQ(At(112, kShort), 900);
  EXPECT_EQ(At(122, kCalm), 900);
  EXPECT_EQ(At(172, kCalm), 920);
}

}  // namespace
}  // namespace fathom::planning
