#include "constraint/grammar/expression.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar/automaton.h"

namespace fathom::constraint {
namespace {

constexpr std::string_view kAlphabet = "abc";
constexpr std::size_t kLongest = 5;

// A set of texts over the alphabet, of those up to the longest.
using Texts = std::set<std::string>;

const Texts& AllShortTexts() {
  static const Texts* const all = [] {
    auto* texts = new Texts{""};
    for (std::size_t length = 0; length < kLongest; ++length) {
      const Texts shorter = *texts;
      for (const std::string& text : shorter) {
        for (const char c : kAlphabet) texts->insert(text + c);
      }
    }
    return texts;
  }();
  return *all;
}

Texts Joined(const Texts& a, const Texts& b) {
  Texts joined;
  for (const std::string& x : a) {
    for (const std::string& y : b) {
      if (x.size() + y.size() <= kLongest) joined.insert(x + y);
    }
  }
  return joined;
}

Texts Repeated(const Texts& texts, std::uint32_t minimum, std::uint32_t maximum) {
  Texts power = {""};
  // Beyond the longest text and its empty repetitions nothing changes.
  const auto bound = static_cast<std::uint32_t>(kLongest + 1);
  for (std::uint32_t i = 0; i < std::min(minimum, bound); ++i) power = Joined(power, texts);
  Texts all = power;
  const std::uint32_t more = maximum == kNoMaximum ? bound : std::min(maximum - minimum, bound);
  for (std::uint32_t i = 0; i < more; ++i) {
    power = Joined(power, texts);
    all.insert(power.begin(), power.end());
  }
  return all;
}

// An expression and, computed without it, its texts.
struct Sample {
  ExpressionId id = 0;
  Texts texts;
};

class RandomExpressions {
 public:
  RandomExpressions(ExpressionPool& pool, unsigned seed) : pool_(pool), random_(seed) {}

  Sample Make(int depth, bool booleans) {
    const int kind = depth == 0 ? Below(2) : Below(booleans ? 8 : 6);
    switch (kind) {
      case 0:
        return OneOf();
      case 1:
        return Word();
      case 2:
      case 3: {
        Sample a = Make(depth - 1, booleans);
        const Sample b = Make(depth - 1, booleans);
        return {pool_.Concat(a.id, b.id), Joined(a.texts, b.texts)};
      }
      case 4:
        return Either(depth, booleans);
      case 5: {
        const Sample a = Make(depth - 1, booleans);
        const auto minimum = static_cast<std::uint32_t>(Below(4));
        const std::uint32_t maximum =
            Below(2) == 0 ? kNoMaximum : minimum + static_cast<std::uint32_t>(Below(3));
        return {pool_.Repeat(a.id, minimum, maximum), Repeated(a.texts, minimum, maximum)};
      }
      case 6: {
        const Sample a = Make(depth - 1, booleans);
        Texts rest;
        for (const std::string& text : AllShortTexts()) {
          if (!a.texts.contains(text)) rest.insert(text);
        }
        return {pool_.Not(a.id), rest};
      }
      default: {
        const Sample a = Make(depth - 1, booleans);
        const Sample b = Make(depth - 1, booleans);
        Texts common;
        for (const std::string& text : a.texts) {
          if (b.texts.contains(text)) common.insert(text);
        }
        const ExpressionId both[] = {a.id, b.id};
        return {pool_.And(both), common};
      }
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Sample OneOf() {
    ByteSet set;
    Texts texts;
    for (const char c : kAlphabet) {
      if (Below(2) == 0) continue;
      set = set | ByteSet::Of(static_cast<std::uint8_t>(c));
      texts.insert(std::string(1, c));
    }
    return {pool_.Bytes(set), texts};
  }
  Sample Word() {
    std::string word;
    for (int n = Below(4); n > 0; --n) {
      word += kAlphabet[static_cast<std::size_t>(Below(static_cast<int>(kAlphabet.size())))];
    }
    return {pool_.Literal(word), {word}};
  }
  Sample Either(int depth, bool booleans) {
    std::vector<ExpressionId> ids;
    Texts all;
    for (int n = 1 + Below(4); n > 0; --n) {
      const Sample a = Make(depth - 1, booleans);
      ids.push_back(a.id);
      all.insert(a.texts.begin(), a.texts.end());
    }
    return {pool_.Or(ids), all};
  }

  ExpressionPool& pool_;
  std::mt19937 random_;
};

StateId Walk(Automaton& automaton, StateId state, std::string_view text) {
  for (const char c : text) state = automaton.Next(state, static_cast<std::uint8_t>(c));
  return state;
}

// Texts up to `length` bytes of the alphabet and one other that lead to acceptance.
bool ReachesAcceptance(Automaton& automaton, StateId state) {
  std::vector<StateId> found = {state};
  for (std::size_t i = 0; i < found.size() && i < 2000; ++i) {
    if (automaton.Accepts(found[i])) return true;
    for (const char c : std::string_view("abcz")) {
      const StateId next = automaton.Next(found[i], static_cast<std::uint8_t>(c));
      if (next != kDeadState && std::ranges::find(found, next) == found.end()) {
        found.push_back(next);
      }
    }
  }
  return false;
}

void CheckSample(unsigned seed, bool booleans) {
  ExpressionPool pool;
  const Sample sample = RandomExpressions(pool, seed).Make(4, booleans);
  Automaton automaton(pool, 20'000);
  const StateId start = automaton.Start(sample.id);
  for (const std::string& text : AllShortTexts()) {
    const StateId state = Walk(automaton, start, text);
    ASSERT_EQ(automaton.Accepts(state), sample.texts.contains(text))
        << "seed " << seed << " text '" << text << "'";
    if (state != kDeadState) {
      ASSERT_TRUE(ReachesAcceptance(automaton, state)) << "seed " << seed << " text " << text;
    }
  }
  EXPECT_FALSE(automaton.exhausted());
  if (!sample.texts.empty()) {
    EXPECT_LE(pool.MinLength(sample.id), sample.texts.begin()->size()) << seed;
  }
}

TEST(Expression, EqualsTheSetsOfItsTexts) {
  for (unsigned seed = 0; seed < 300; ++seed) CheckSample(seed, false);
}

TEST(Expression, EqualsTheSetsOfItsTextsWithAndAndNot) {
  for (unsigned seed = 1000; seed < 1300; ++seed) CheckSample(seed, true);
}

}  // namespace
}  // namespace fathom::constraint
