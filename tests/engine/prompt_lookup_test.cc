// Tokens that are looked up in a sequence: what followed its end when it occurred before.
#include "engine/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

namespace fathom::engine {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<Token>;

Tokens Find(PromptLookup& lookup, const Tokens& text, std::int64_t most = 3) {
  const PromptLookup::Found found = lookup.Find(text, most);
  return {found.tokens.begin(), found.tokens.end()};
}

Tokens FindAnew(const Tokens& text, std::int64_t most = 3) {
  PromptLookup lookup;
  return Find(lookup, text, most);
}

TEST(PromptLookup, NeedsThreeTokensThatOccurredBefore) {
  EXPECT_TRUE(FindAnew({}).empty());
  EXPECT_TRUE(FindAnew({7}).empty());
  EXPECT_TRUE(FindAnew({7, 7, 7}).empty());
  EXPECT_TRUE(FindAnew({1, 2, 3, 4, 5, 6}).empty());
  EXPECT_TRUE(FindAnew({1, 2, 3, 4, 2, 3}).empty());
  EXPECT_THAT(FindAnew({1, 2, 3, 4, 5, 6, 1, 2, 3}), ElementsAre(4, 5, 6));
  EXPECT_THAT(FindAnew({1, 2, 3, 4, 5, 6, 1, 2, 3}, 1), ElementsAre(4));
  EXPECT_TRUE(FindAnew({1, 2, 3, 4, 5, 6, 1, 2, 3}, 0).empty());
}

TEST(PromptLookup, TheLongestMatchWinsThenTheLatest) {
  const Tokens longest = {9, 1, 2, 3, 40, 0, 1, 2, 3, 50, 9, 1, 2, 3};
  EXPECT_THAT(FindAnew(longest, 1), ElementsAre(40));
  const Tokens latest = {8, 1, 2, 3, 40, 0, 1, 2, 3, 50, 9, 1, 2, 3};
  EXPECT_THAT(FindAnew(latest, 1), ElementsAre(50));
  PromptLookup lookup;
  EXPECT_EQ(lookup.Find(longest, 1).n_matching, 4);
}

// A match that reaches the end goes on with itself.
TEST(PromptLookup, ContinuesWhatRepeats) {
  EXPECT_THAT(FindAnew({5, 5, 5, 5}, 8), ElementsAre(5, 5, 5, 5, 5, 5, 5, 5));
  EXPECT_THAT(FindAnew({1, 2, 3, 1, 2, 3}, 7), ElementsAre(1, 2, 3, 1, 2, 3, 1));
}

// Finds the same by scanning the whole text, without an index.
Tokens Scan(const Tokens& text, std::int64_t most) {
  const std::int64_t last = std::ssize(text) - 1;
  std::int64_t longest = PromptLookup::kShortest - 1;
  std::int64_t best = -1;
  for (std::int64_t end = last - 1; end >= 0; --end) {
    std::int64_t n = 0;
    while (n <= end && n < PromptLookup::kLongest &&
           text[static_cast<std::size_t>(end - n)] == text[static_cast<std::size_t>(last - n)]) {
      ++n;
    }
    if (n > longest) {
      longest = n;
      best = end;
    }
  }
  Tokens found;
  for (std::int64_t next = best + 1; best >= 0 && std::ssize(found) < most; ++next) {
    const Tokens& from = next <= last ? text : found;
    found.push_back(from[static_cast<std::size_t>(next <= last ? next : next - last - 1)]);
  }
  return found;
}

// Grown token by token or by more, across growing slots. The vocabulary is large enough that no
// three tokens occur more often than are tried.
TEST(PromptLookup, FindsWhatAScanFinds) {
  std::mt19937 random(1);
  int n_found = 0;
  for (int text = 0; text < 20; ++text) {
    PromptLookup lookup;
    Tokens tokens;
    while (tokens.size() < 1200) {
      if (tokens.size() > 40 && random() % 8 == 0) {
        const std::size_t from = random() % (tokens.size() - 20);
        const std::size_t n = 3 + random() % 15;
        for (std::size_t i = 0; i < n; ++i) tokens.push_back(tokens[from + i]);
      } else {
        tokens.push_back(static_cast<Token>(random() % 30));
      }
      if (random() % 3 == 0) continue;
      const Tokens expected = Scan(tokens, 5);
      ASSERT_EQ(Find(lookup, tokens, 5), expected) << text << " of " << tokens.size();
      n_found += expected.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(n_found, 500);
}

// Two tokens at random: all triples are frequent, and chains are as long as the text.
TEST(PromptLookup, WorkIsBoundedWhateverRepeats) {
  constexpr std::int64_t kTokens = 100'000;
  for (const unsigned n_kinds : {1u, 2u}) {
    std::mt19937 random(1);
    PromptLookup lookup;
    Tokens tokens;
    tokens.reserve(kTokens);
    const auto begin = std::chrono::steady_clock::now();
    while (std::ssize(tokens) < kTokens) {
      tokens.push_back(static_cast<Token>(random() % n_kinds));
      lookup.Find(tokens, 8);
    }
    // A scan of every earlier occurrence would compare 5 * 10^9 tokens.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << n_kinds;
  }
}

}  // namespace
}  // namespace fathom::engine
