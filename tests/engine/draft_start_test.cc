// The first tokens of a program, on invented machines: a step takes the time of the rows that it
// verifies and that of the tokens that it drafts, whose numbers differ where the depth changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/draft_chooser.h"
#include "model/draft/draft_costs.h"

namespace fathom::engine {
namespace {

constexpr std::int64_t kFirstTokens = 256;
constexpr double kStartNoise = 0.1;

// In units of a step without drafts.
struct Machine {
  double row = 0;         // a verified token of each sequence
  double pass = 0;        // drafting, whatever the depth
  double draft = 0;       // each token that is drafted
  double acceptance = 0;  // of each draft if those before it are right
  std::int64_t max_depth = 4;

  double Seconds(std::int64_t verified, std::int64_t drafted) const {
    return 1 + row * static_cast<double>(verified) +
           (drafted > 0 ? pass + draft * static_cast<double>(drafted) : 0);
  }
  double Yield(std::int64_t depth) const {
    double yield = 1;
    for (std::int64_t i = 1; i <= depth; ++i) {
      yield += std::pow(acceptance, static_cast<double>(i));
    }
    return yield;
  }
  // The speed of the best fixed depth.
  double Best() const {
    double best = 1;
    for (std::int64_t k = 1; k <= max_depth; ++k) best = std::max(best, Yield(k) / Seconds(k, k));
    return best;
  }
  std::string Name() const {
    return fmt::format("row {}, pass {}, draft {}, acceptance {}", row, pass, draft, acceptance);
  }
};

// Costs by bytes on a machine that reads only, whose experts are few: rows cost nothing but the
// experts that they reach.
DraftCosts CostsByBytes(const Machine& machine) {
  return {.fixed = 1,
          .expert = machine.row / 8,
          .n_layers = 1,
          .n_experts = 64,
          .n_chosen = 8,
          .draft_fixed = machine.pass,
          .draft = machine.draft,
          .rows_per_pass = 1,
          .drafts_per_pass = machine.max_depth};
}

// Returns the speed of the first tokens of each sequence, in units of the speed without drafts.
double SpeedAtStart(const Machine& machine, std::int64_t n_sequences, const DraftCosts& costs,
                    std::uint64_t seed, double n_first_tokens = kFirstTokens) {
  DraftChooser chooser({.costs = costs});
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_right(machine.acceptance);
  std::normal_distribution noise(0.0, kStartNoise);
  double tokens = 0;
  double seconds = 0;
  std::int64_t verified = 0;
  while (tokens < n_first_tokens) {
    std::int64_t n_right = 0;
    for (std::int64_t sequence = 0; sequence < n_sequences; ++sequence) {
      for (std::int64_t i = 0; i < verified; ++i) {
        const bool right = is_right(random);
        chooser.RecordVerification(i, right);
        if (!right) break;
        ++n_right;
      }
    }
    const double n_tokens = 1 + static_cast<double>(n_right) / static_cast<double>(n_sequences);
    const std::int64_t drafted = chooser.Choose(
        {.n_sequences = n_sequences, .n_drafting = n_sequences, .most = machine.max_depth});
    const double taken = machine.Seconds(verified, drafted);
    const double measured = taken * std::exp(noise(random));
    chooser.RecordStep({.n_sequences = n_sequences,
                        .n_drafts = drafted * n_sequences,
                        .is_uniform = verified == drafted,
                        .n_tokens = n_tokens,
                        .seconds = measured});
    tokens += n_tokens;
    seconds += taken;
    verified = drafted;
  }
  return tokens / seconds;
}

std::vector<Machine> InventedMachines() {
  std::vector<Machine> machines;
  for (const double acceptance : {0.2, 0.5, 0.8}) {
    for (const double row : {0.1, 0.3, 0.6, 1.0}) {
      machines.push_back({.row = row, .pass = 0.02, .draft = 0.2, .acceptance = acceptance});
      machines.push_back(
          {.row = row, .pass = 0.3, .draft = 0.02, .acceptance = acceptance, .max_depth = 5});
      machines.push_back(
          {.row = row, .pass = 1.5, .draft = 0.02, .acceptance = acceptance, .max_depth = 5});
    }
  }
  return machines;
}

struct StartSpeeds {
  double mean = 0;
  double lowest = 1e9;
};

StartSpeeds AverageSpeed(const Machine& machine, std::int64_t n_sequences, const DraftCosts& costs,
                         double n_first_tokens = kFirstTokens) {
  constexpr int kSeeds = 40;
  StartSpeeds found;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const double speed = SpeedAtStart(machine, n_sequences, costs, seed, n_first_tokens);
    found.mean += speed / kSeeds;
    found.lowest = std::min(found.lowest, speed);
  }
  return found;
}

// Averages of many starts: less than a fortieth is lost where drafts do not pay, and hardly more in
// any single start, noise included.
TEST(DraftStart, LosesLittleAndGainsWhereDraftsPay) {
  for (const Machine& machine : InventedMachines()) {
    for (const std::int64_t n_sequences : {1, 8, 32}) {
      for (const bool knows_bytes : {false, true}) {
        const StartSpeeds found =
            AverageSpeed(machine, n_sequences, knows_bytes ? CostsByBytes(machine) : DraftCosts());
        const std::string name = fmt::format("{}, {} sequences, bytes known: {}", machine.Name(),
                                             n_sequences, knows_bytes);
        EXPECT_GE(found.mean, std::max(0.955, 0.8 * machine.Best())) << name;
        EXPECT_GE(found.lowest, 0.93) << name;
      }
    }
  }
}

// A drafter that bytes show to be too dear is never asked, whatever the first steps look like.
TEST(DraftStart, NeverDraftsWhatBytesForbid) {
  const Machine machine = {.row = 0.3, .pass = 30, .draft = 0.1, .acceptance = 0.9};
  for (const std::int64_t n_sequences : {1, 8, 32}) {
    EXPECT_EQ(SpeedAtStart(machine, n_sequences, CostsByBytes(machine), 1), 1) << n_sequences;
  }
}

// Drafts are never right, and every step that verifies them takes much longer than is thought.
TEST(DraftStart, VetoesWhatLoses) {
  DraftChooser chooser({.costs = {.fixed = 1, .draft_fixed = 0.01}});
  const auto spend = [&](double n_tokens, double seconds) {
    chooser.RecordStep(
        {.n_sequences = 1, .is_uniform = false, .n_tokens = n_tokens, .seconds = seconds});
  };
  for (int i = 0; i < 20; ++i) chooser.RecordStep({.n_sequences = 1, .seconds = 1});
  ASSERT_FALSE(chooser.is_vetoed());
  spend(1.0, 2.5);
  spend(1.0, 1.2);
  EXPECT_FALSE(chooser.is_vetoed());
  spend(1.0, 1.5);  // 2.2 steps are lost
  EXPECT_TRUE(chooser.is_vetoed());
  std::int64_t n_steps = 0;
  for (; chooser.is_vetoed(); ++n_steps) {
    ASSERT_EQ(chooser.Choose({.n_sequences = 1, .n_drafting = 1, .most = 4}), 0);
    chooser.RecordStep({.n_sequences = 1, .seconds = 1});
  }
  EXPECT_GT(n_steps, 150);
  EXPECT_LT(n_steps, 300);
  // The gain of drafts pays for later losses, up to ten steps.
  spend(100, 1.0);
  for (int i = 0; i < 5; ++i) spend(1.0, 2.9);  // 1.9 steps are lost
  EXPECT_FALSE(chooser.is_vetoed());
  spend(1.0, 1.7);
  EXPECT_TRUE(chooser.is_vetoed());
}

// A few wrong drafts in a row do not end drafts that pay for long. They are frequent with one
// sequence.
TEST(DraftStart, KeepsDraftsThatPay) {
  double share = 0;
  int n_machines = 0;
  for (const Machine& machine : InventedMachines()) {
    if (machine.Best() < 1.05) continue;
    share += AverageSpeed(machine, 1, CostsByBytes(machine), 2000).mean / machine.Best();
    ++n_machines;
  }
  ASSERT_GT(n_machines, 5);
  EXPECT_GE(share / n_machines, 0.95);
}

}  // namespace
}  // namespace fathom::engine
