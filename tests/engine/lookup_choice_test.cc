// How many looked-up tokens are verified, on invented machines: texts that repeat or do not, rows
// that cost little or a whole step.
#include "engine/draft_chooser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include <fmt/format.h>

namespace fathom::engine {
namespace {

constexpr double kLookupNoise = 0.1;
constexpr std::int64_t kLeastMatch = 3;

struct LookupMachine {
  double row = 0;         // a verified token, in units of a step without drafts
  double believed = 0;    // by bytes; 0: unknown
  double matches = 0;     // share of steps that find a match
  double acceptance = 0;  // of each token behind a short match; long ones are right more often
  std::int64_t n_sequences = 1;

  // The chance of a token behind a match of this length.
  double Chance(std::int64_t n_matching) const {
    return std::min(acceptance * (0.8 + 0.02 * static_cast<double>(n_matching)), 1.0);
  }
  std::string Name() const {
    return fmt::format("row {} (believed {}), {} matches, acceptance {}, {} sequences", row,
                       believed, matches, acceptance, n_sequences);
  }
};

DraftCosts MakeCosts(const LookupMachine& machine) {
  if (machine.believed == 0) return {};
  // A step of one row reads 1; every row reads nearly as many further experts.
  return {.fixed = 1 - machine.believed,
          .expert = machine.believed / 8,
          .n_layers = 1,
          .n_experts = 100'000,
          .n_chosen = 8};
}

DraftChooser MakeChooser(const LookupMachine& machine) {
  return DraftChooser({.costs = MakeCosts(machine),
                       .drafting_is_free = true,
                       .first_balance = 1.5,
                       .trial_length = 1});
}

std::int64_t ChooseLookups(DraftChooser& chooser, std::int64_t n_sequences, std::int64_t n_matching,
                           std::int64_t most) {
  return chooser.Choose({.n_sequences = n_sequences,
                         .n_drafting = 1,
                         .first_index = n_matching - kLeastMatch,
                         .most = most});
}

// Returns the speed of a run in units of one without lookups, whose noise is the same.
double MeasureSpeed(const LookupMachine& machine, std::int64_t n_steps, unsigned seed) {
  DraftChooser chooser = MakeChooser(machine);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share(0, 1);
  std::normal_distribution<double> noise(1, kLookupNoise);
  double seconds = 0;
  double tokens = 0;  // of each sequence
  for (std::int64_t i = 0; i < n_steps; ++i) {
    std::int64_t n_rows = 0;
    std::int64_t n_right = 0;
    for (std::int64_t s = 0; s < machine.n_sequences; ++s) {
      if (share(random) >= machine.matches) continue;
      const auto n_matching = 3 + static_cast<std::int64_t>(12 * share(random));
      const std::int64_t n = ChooseLookups(chooser, machine.n_sequences, n_matching, 8);
      n_rows += n;
      for (std::int64_t k = 0; k < n; ++k) {
        const bool right = share(random) < machine.Chance(n_matching + k);
        chooser.RecordVerification(n_matching - kLeastMatch + k, right);
        if (!right) break;
        ++n_right;
      }
    }
    const double each = static_cast<double>(machine.n_sequences);
    const double step_tokens = 1 + static_cast<double>(n_right) / each;
    const double step =
        (1 + machine.row * static_cast<double>(n_rows) / each) * std::max(noise(random), 0.5);
    chooser.RecordStep({.n_sequences = machine.n_sequences,
                        .n_drafts = n_rows,
                        .n_tokens = step_tokens,
                        .seconds = step});
    seconds += step;
    tokens += step_tokens;
  }
  return tokens / seconds;
}

double AverageLookupSpeed(const LookupMachine& machine, std::int64_t n_steps) {
  constexpr unsigned kRuns = 10;
  double sum = 0;
  for (unsigned seed = 1; seed <= kRuns; ++seed) sum += MeasureSpeed(machine, n_steps, seed);
  return sum / kRuns;
}

// Whatever the machine, what is believed of it, and the text.
TEST(LookupChoice, LosesLittleWhereLookupsDoNotPay) {
  for (const double row : {0.1, 0.4, 1.0, 1.5}) {
    for (const double believed : {0.0, 0.05, 0.3}) {
      for (const double matches : {0.05, 0.3, 1.0}) {
        for (const double acceptance : {0.0, 0.3, 0.6}) {
          for (const std::int64_t n_sequences : {1, 8}) {
            const LookupMachine machine = {row, believed, matches, acceptance, n_sequences};
            EXPECT_GT(AverageLookupSpeed(machine, 256), 0.97) << machine.Name();
          }
        }
      }
    }
  }
  for (const double row : {0.4, 1.0}) {
    const LookupMachine machine = {row, 0.05, 1.0, 0.1};
    EXPECT_GT(AverageLookupSpeed(machine, 4000), 0.985) << machine.Name();
  }
}

TEST(LookupChoice, GainsWhereTextsRepeat) {
  // 50 of 51 right, as where an answer copies a part of its prompt.
  EXPECT_GT(AverageLookupSpeed({.row = 0.1, .believed = 0.1, .matches = 1, .acceptance = 1}, 256),
            3);
  EXPECT_GT(
      AverageLookupSpeed({.row = 0.3, .believed = 0.05, .matches = 0.5, .acceptance = 1}, 256),
      1.4);
  EXPECT_GT(AverageLookupSpeed({.row = 0.2, .matches = 0.5, .acceptance = 0.9}, 1000), 1.25);
  EXPECT_GT(
      AverageLookupSpeed(
          {.row = 0.3, .believed = 0.1, .matches = 0.5, .acceptance = 1, .n_sequences = 8}, 1000),
      1.4);
}

// Long matches that are right pay among short ones that are wrong.
TEST(LookupChoice, TellsMatchesApartByLength) {
  DraftChooser chooser = MakeChooser({.row = 0.5, .believed = 0.5});
  for (int i = 0; i < 400; ++i) {
    const std::int64_t n_matching = i % 4 == 0 ? 20 : 3;
    const std::int64_t n = ChooseLookups(chooser, 1, n_matching, 4);
    const bool right = n_matching == 20;
    for (std::int64_t k = 0; k < n; ++k) {
      chooser.RecordVerification(n_matching - kLeastMatch + k, right);
      if (!right) break;
    }
    chooser.RecordStep({.n_sequences = 1,
                        .n_drafts = n,
                        .n_tokens = right ? 1.0 + static_cast<double>(n) : 1.0,
                        .seconds = 1 + 0.5 * static_cast<double>(n)});
  }
  EXPECT_FALSE(chooser.is_vetoed());
  EXPECT_EQ(ChooseLookups(chooser, 1, 20, 4), 4);
  EXPECT_EQ(ChooseLookups(chooser, 1, 3, 4), 0);
}

TEST(LookupChoice, TimesStepsWithoutDraftsFirstAndNowAndThen) {
  DraftChooser chooser = MakeChooser({});
  int n_without = 0;
  for (int i = 0; i < 8 + 65 * 10; ++i) {
    const std::int64_t n = ChooseLookups(chooser, 1, 20, 8);
    EXPECT_TRUE(i >= 8 || n == 0);
    n_without += i >= 8 && n == 0 ? 1 : 0;
    for (std::int64_t k = 0; k < n; ++k) chooser.RecordVerification(20 - kLeastMatch + k, true);
    chooser.RecordStep({.n_sequences = 1,
                        .n_drafts = n,
                        .n_tokens = 1.0 + static_cast<double>(n),
                        .seconds = 1 + 0.1 * static_cast<double>(n)});
  }
  EXPECT_EQ(n_without, 10);
}

}  // namespace
}  // namespace fathom::engine
