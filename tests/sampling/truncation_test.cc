#include "sampling/truncation.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace fathom::sampling {
namespace {

struct Parameters {
  double top_p = 1;
  std::int64_t top_k = 0;
  double min_p = 0;

  SamplingRule Rule() const {
    return {.top_p = top_p, .lowest = LowestOfMinP(min_p), .top_k = top_k};
  }
};

// The definition of the kept set: everything sorted, probabilities normalised at every step.
std::set<Token> NaiveKeptSet(const Parameters& parameters, std::vector<Candidate> candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  std::size_t count = candidates.size();
  const auto probability = [&](std::size_t i) { return std::exp(double{candidates[i].logit}); };
  while (parameters.min_p > 0 && probability(count - 1) < parameters.min_p * probability(0)) {
    --count;
  }
  if (parameters.top_k > 0) count = std::min(count, static_cast<std::size_t>(parameters.top_k));
  if (parameters.top_p < 1) {
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      total += probability(i);
    }
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += probability(i);
      if (sum >= parameters.top_p * total) count = i + 1;
    }
  }
  std::set<Token> kept;
  for (std::size_t i = 0; i < count; ++i) {
    kept.insert(candidates[i].token);
  }
  return kept;
}

std::set<Token> KeptSet(const Parameters& parameters, std::vector<Candidate> candidates) {
  Truncate(parameters.Rule(), candidates);
  std::set<Token> kept;
  for (const Candidate& candidate : candidates) {
    kept.insert(candidate.token);
  }
  EXPECT_EQ(kept.size(), candidates.size());
  return kept;
}

// Steps of 1/4 make ties; `spread` decides how many candidates carry the probability.
std::vector<Candidate> RandomCandidates(int spread) {
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, spread));
  std::vector<Candidate> candidates;
  candidates.push_back({.logit = 0, .token = 0});
  for (const int step : steps) {
    candidates.push_back({.logit = -0.25f * static_cast<float>(step),
                          .token = static_cast<Token>(candidates.size())});
  }
  return candidates;
}

TEST(Truncate, KeepsExactlyWhatTheDefinitionKeeps) {
  const bool holds = rc::check([] {
    const std::vector<Candidate> candidates = RandomCandidates(*rc::gen::element(2, 8, 80));
    for (int i = 0; i < 20; ++i) {
      Parameters parameters;
      parameters.top_p = *rc::gen::inRange(1, 1001) / 1000.0;
      parameters.top_k = *rc::gen::inRange(0, static_cast<int>(candidates.size()) + 1);
      parameters.min_p = *rc::gen::element(0.0, 0.0, 0.0101, 0.1003, 0.501, 1.0);
      RC_ASSERT(KeptSet(parameters, candidates) == NaiveKeptSet(parameters, candidates));
    }
  });
  EXPECT_TRUE(holds);
}

// Enough candidates that many share a bin of the selection.
TEST(Truncate, LargeVocabulary) {
  std::vector<Candidate> candidates;
  std::uint64_t state = 1;
  for (Token token = 0; token < 20000; ++token) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    candidates.push_back({.logit = -static_cast<float>(state >> 40) * 0x1p-22f, .token = token});
  }
  candidates[777].logit = 0;
  for (const double top_p : {1e-6, 0.001, 0.01, 0.02, 0.3, 0.9, 0.999999}) {
    const Parameters parameters{.top_p = top_p};
    EXPECT_EQ(KeptSet(parameters, candidates), NaiveKeptSet(parameters, candidates)) << top_p;
  }
  for (const std::int64_t top_k : {1, 31, 32, 33, 288, 5000, 19999, 20000}) {
    const Parameters parameters{.top_p = 0.95, .top_k = top_k, .min_p = 0.05};
    EXPECT_EQ(KeptSet(parameters, candidates), NaiveKeptSet(parameters, candidates)) << top_k;
  }
}

// With weights of 2^44 this sum would not fit into 64 bits.
TEST(Truncate, SumsOfLargeVocabulariesDoNotOverflow) {
  constexpr int kCount = 1 << 22;  // the most tokens that a configuration may have
  std::vector<Candidate> candidates;
  for (Token token = 0; token < kCount; ++token) {
    candidates.push_back({.logit = 0, .token = token});
  }
  Truncate(Parameters{.top_p = 0.75}.Rule(), candidates);
  ASSERT_EQ(candidates.size(), static_cast<std::size_t>(3 * (kCount / 4)));
  for (const Candidate& candidate : candidates) {
    ASSERT_LT(candidate.token, 3 * (kCount / 4));
  }
}

// Probabilities 0.5, 0.25, 0.125, 0.125.
const std::vector<Candidate> kHalves = {{.logit = std::log(0.25f), .token = 0},
                                        {.logit = 0, .token = 1},
                                        {.logit = std::log(0.25f), .token = 2},
                                        {.logit = std::log(0.5f), .token = 3}};

TEST(Truncate, TopPKeepsTheTokenThatCrosses) {
  EXPECT_EQ(KeptSet({.top_p = 0.1}, kHalves), (std::set<Token>{1}));
  EXPECT_EQ(KeptSet({.top_p = 0.49}, kHalves), (std::set<Token>{1}));
  EXPECT_EQ(KeptSet({.top_p = 0.51}, kHalves), (std::set<Token>{1, 3}));
  EXPECT_EQ(KeptSet({.top_p = 0.74}, kHalves), (std::set<Token>{1, 3}));
  EXPECT_EQ(KeptSet({.top_p = 0.76}, kHalves), (std::set<Token>{0, 1, 3}));  // the tie: lower id
  EXPECT_EQ(KeptSet({.top_p = 0.88}, kHalves), (std::set<Token>{0, 1, 2, 3}));
}

TEST(Truncate, TopKTiesKeepTheLowestId) {
  EXPECT_EQ(KeptSet({.top_k = 3}, kHalves), (std::set<Token>{0, 1, 3}));
}

TEST(Truncate, MinPIsRelativeToTheBest) {
  EXPECT_EQ(KeptSet({.min_p = 0.249}, kHalves), (std::set<Token>{0, 1, 2, 3}));
  EXPECT_EQ(KeptSet({.min_p = 0.251}, kHalves), (std::set<Token>{1, 3}));
  EXPECT_EQ(KeptSet({.min_p = 1}, kHalves), (std::set<Token>{1}));
  EXPECT_EQ(KeptSet({.min_p = 1e-320}, kHalves), (std::set<Token>{0, 1, 2, 3}));
}

// Top-p counts the probability that min-p and top-k have left.
TEST(Truncate, StepsRenormalise) {
  EXPECT_EQ(KeptSet({.top_p = 0.66, .top_k = 2}, kHalves), (std::set<Token>{1}));
  EXPECT_EQ(KeptSet({.top_p = 0.66}, kHalves), (std::set<Token>{1, 3}));
  EXPECT_EQ(KeptSet({.top_p = 0.66, .min_p = 0.3}, kHalves), (std::set<Token>{1}));
}

}  // namespace
}  // namespace fathom::sampling
