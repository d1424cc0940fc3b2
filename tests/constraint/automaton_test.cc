#include "constraint/grammar/automaton.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "constraint/grammar/expression.h"
#include "constraint/readers/regex.h"

namespace fathom::constraint {
namespace {

StateId Read(Automaton& automaton, StateId state, std::string_view text) {
  for (const char c : text) state = automaton.Next(state, static_cast<std::uint8_t>(c));
  return state;
}

TEST(Automaton, StepsThroughALargeEnumeration) {
  std::vector<std::string> values;
  for (int i = 0; i < 50'000; ++i) values.push_back("a value with number " + std::to_string(i));
  ExpressionPool pool;
  const ExpressionId any = pool.AnyLiteral({values.begin(), values.end()});
  Automaton automaton(pool, 250'000);
  const StateId start = automaton.Start(any);
  for (int i = 0; i < 50'000; i += 17) {
    const StateId end = Read(automaton, start, values[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(automaton.Accepts(end)) << i;
    ASSERT_EQ(automaton.Next(end, 'x'), kDeadState);
  }
  EXPECT_EQ(Read(automaton, start, "a value with number 50000"), kDeadState);
  EXPECT_FALSE(automaton.exhausted());
}

// As an object with optional properties is built: each may be left out.
TEST(Automaton, StepsThroughALongChainOfOptionalParts) {
  constexpr int kParts = 20'000;
  ExpressionPool pool;
  const ExpressionId value = pool.OneLetter({LetterKind::kCall, 0});
  ExpressionId chain = pool.Literal("}");
  for (int i = kParts; i-- > 0;) {
    const ExpressionId part =
        pool.Concat(pool.Literal(",\"property_" + std::to_string(100'000 + i) + "\":"), value);
    chain = pool.Concat(pool.Optional(part), chain);
  }
  Automaton automaton(pool, 250'000);
  StateId state = automaton.Start(chain);
  for (const int i : {3, 77, 1'234, 19'999}) {
    state = Read(automaton, state, ",\"property_" + std::to_string(100'000 + i) + "\":");
    ASSERT_NE(state, kDeadState);
    ASSERT_EQ(automaton.Edges(state).size(), 1u);
    state = automaton.Edges(state)[0].target;
    ASSERT_TRUE(automaton.TakesBytes(state));
    ASSERT_EQ(Read(automaton, state, ",\"property_100003"), kDeadState);
  }
  EXPECT_EQ(automaton.Next(state, ','), kDeadState);
  EXPECT_TRUE(automaton.Accepts(automaton.Next(state, '}')));
  EXPECT_FALSE(automaton.exhausted());
}

TEST(Automaton, KeepsNestedCountsSmall) {
  ExpressionPool pool;
  const ExpressionId a = pool.Literal("a");
  const ExpressionId b = pool.Literal("b");
  ExpressionId nested = pool.Repeat(a, 0, 999);
  for (int i = 0; i < 3; ++i) nested = pool.Repeat(pool.Concat(nested, pool.Optional(b)), 0, 999);
  Automaton automaton(pool, 250'000);
  StateId state = automaton.Start(nested);
  for (int i = 0; i < 300; ++i) state = automaton.Next(state, 'a');
  EXPECT_TRUE(automaton.exhausted() || automaton.Accepts(state));
  EXPECT_TRUE(automaton.exhausted() || automaton.n_states() < 1000);
}

TEST(Automaton, NestedStarsHaveFewStates) {
  ExpressionPool pool;
  const ExpressionId a = pool.Literal("a");
  const ExpressionId star = pool.Repeat(pool.Repeat(a, 0, kNoMaximum), 0, kNoMaximum);
  EXPECT_EQ(star, pool.Repeat(a, 0, kNoMaximum));
  Automaton automaton(pool, 100);
  const StateId start = automaton.Start(pool.Concat(star, pool.Literal("b")));
  EXPECT_EQ(Read(automaton, start, "aaaa"), start);
  EXPECT_TRUE(automaton.Accepts(Read(automaton, start, "aaaab")));
}

TEST(Automaton, JoinsLargeEnumerationsWhereATextLeads) {
  std::vector<std::string> values;
  for (int i = 0; i < 40'000; ++i) values.push_back("value " + std::to_string(i * 7919LL));
  const std::size_t half = values.size() / 2;
  ExpressionPool pool;
  const ExpressionId a = pool.AnyLiteral({values.begin(), values.end()});
  const ExpressionId b = pool.AnyLiteral({values.begin() + 5, values.begin() + 30'000});
  const ExpressionId parts[] = {pool.Concat(a, pool.Literal("!")),
                                pool.Concat(b, pool.Literal("?"))};
  const std::size_t before = pool.n_expressions();
  Automaton automaton(pool, 10'000);
  const StateId start = automaton.Start(pool.Or(parts));
  EXPECT_TRUE(automaton.Accepts(Read(automaton, start, values[half] + "?")));
  EXPECT_TRUE(automaton.Accepts(Read(automaton, start, values[half] + "!")));
  EXPECT_TRUE(automaton.Accepts(Read(automaton, start, values[1] + "!")));
  EXPECT_EQ(Read(automaton, start, values[1] + "?"), kDeadState);
  EXPECT_LT(pool.n_expressions(), before + 20'000);
}

ExpressionId AnyText(ExpressionPool& pool) {
  return pool.Repeat(Utf8(pool, AllCodePoints()), 0, kNoMaximum);
}

ExpressionId Regex(ExpressionPool& pool, std::string_view pattern) {
  return *ParseRegex(pool, pattern, {.anchored = true});
}

CharacterClasses FindKinds(std::string_view text) {
  CharacterClasses kinds = 0;
  for (const char c : text) kinds |= KindBit(static_cast<std::uint8_t>(c));
  return kinds;
}

TEST(Automaton, FindsFreeKinds) {
  ExpressionPool pool;
  const ExpressionId raw = AnyText(pool);
  const ExpressionId body = Regex(pool, R"(([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-f]{4}))*")");
  const ExpressionId class_only = Regex(pool, R"([^"\\]*)");
  const ExpressionId counted = Regex(pool, "[^]{0,500}");
  const ExpressionId exact = Regex(pool, "[^]{20}");
  const ExpressionId ascii = Regex(pool, "[ -~]*");
  const ExpressionId words = pool.AnyLiteral({"abc", "abd"});
  const ExpressionId search = *ParseRegex(pool, "a[bc]+d", {});
  const ExpressionId slug = Regex(pool, "[a-z]+(-[0-9]+)*");
  const ExpressionId hex = Regex(pool, "[0-9A-F]{40}");
  const ExpressionId quoted = Regex(pool, "'[^']*'");
  const ExpressionId empty = pool.Empty();
  Automaton automaton(pool, 10'000);
  const auto free = [&](ExpressionId expression) {
    return automaton.AcceptedClasses(automaton.Start(expression));
  };
  for (const ExpressionId of : {raw, body, class_only, counted, search}) {
    EXPECT_EQ(free(of), kAllCharacterClasses) << of;
  }
  for (const ExpressionId of : {exact, words, quoted, empty, pool.Nothing()}) {
    EXPECT_EQ(free(of), 0u) << of;
  }
  EXPECT_EQ(free(ascii), kAllCharacterClasses & ~FindKinds("\xC3\xE4\xF1\x7F"));
  EXPECT_EQ(free(slug), FindKinds("ag"));
  EXPECT_EQ(free(hex), FindKinds("0A"));
  const StateId opened = Read(automaton, automaton.Start(quoted), "'a");
  EXPECT_EQ(automaton.AcceptedClasses(opened), kAllCharacterClasses & ~FindKinds("'"));
  const StateId late = Read(automaton, automaton.Start(counted), std::string(468, 'x'));
  EXPECT_EQ(automaton.AcceptedClasses(late), kAllCharacterClasses);
  EXPECT_EQ(automaton.AcceptedClasses(Read(automaton, late, "xx")), 0u);
  const StateId within = Read(automaton, automaton.Start(raw), "\xe2\x82");
  EXPECT_EQ(automaton.AcceptedClasses(within), 0u);
}

// More names than the search visits.
TEST(Automaton, FindsFreeKindsOfNegatedWords) {
  ExpressionPool pool;
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back("name" + std::to_string(i * 7919));
  const ExpressionId few = pool.AnyLiteral({names.begin(), names.end()});
  const ExpressionId body = Regex(pool, R"([^"\\]*)");
  const ExpressionId both[] = {body, pool.Not(few)};
  const ExpressionId key = pool.Concat(pool.And(both), pool.Literal("\""));
  const ExpressionId with_pattern[] = {few, Regex(pool, "x[^]*")};
  const ExpressionId other[] = {body, pool.Not(pool.Or(with_pattern))};
  const ExpressionId open = pool.Concat(pool.And(both), body);
  const ExpressionId other_key = pool.Concat(pool.And(other), pool.Literal("\""));
  Automaton automaton(pool, 10'000);
  EXPECT_EQ(automaton.AcceptedClasses(automaton.Start(key)), kAllCharacterClasses);
  EXPECT_EQ(pool.OverApproximate(open), open);
  EXPECT_EQ(automaton.AcceptedClasses(automaton.Start(other_key)),
            kAllCharacterClasses & ~FindKinds("g"));
  EXPECT_LT(automaton.n_states(), 600u);
}

TEST(Automaton, TakesEveryTextOfFreeKinds) {
  static constexpr const char* kPatterns[] = {
      "[^]*",      "[^]{3,12}", "([^a]|a[^b])*", "(?:[^]{2}|x)*",     "a*[^]*",
      "[^]{0,31}", "\\W*",      "[^]*b[^]{4}",   "([^]{3}){0,10}",    "[^\\u1234]*",
      "[^]{11,}",  "\\P{Lu}*",  "([^]|[^]{7})*", "(a|[^a][^]{0,9})*", "[^]?[^]?[^]{8}c?",
      "[a-zA]*-?", "(ab?|U)*",  "[^-]*-[a-f]*"};
  static constexpr char32_t kLetters[] = {'a', 'b', 'c', 'x', 0xE9, 0x1234, 0x1F600, 'U', '-'};
  std::mt19937 random(5);
  int n_free = 0;
  for (const char* const pattern : kPatterns) {
    ExpressionPool pool;
    const ExpressionId expression = Regex(pool, pattern);
    Automaton automaton(pool, 10'000);
    const StateId start = automaton.Start(expression);
    const CharacterClasses kinds = automaton.AcceptedClasses(start);
    std::vector<std::string> letters;
    for (const char32_t letter : kLetters) {
      std::string text;
      AppendUtf8(letter, text);
      if ((KindBit(static_cast<std::uint8_t>(text[0])) & kinds) != 0) letters.push_back(text);
    }
    if (letters.empty()) continue;
    ++n_free;
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (int k = 0; k < 30; ++k) text += letters[random() % letters.size()];
      const StateId state = Read(automaton, start, text);
      ASSERT_NE(state, kDeadState) << pattern << " " << text;
      ASSERT_TRUE(automaton.TakesBytes(state)) << pattern << " " << text;
    }
  }
  EXPECT_GT(n_free, 10);
}

TEST(Automaton, ListsTexts) {
  ExpressionPool pool;
  const ExpressionId few = Regex(pool, "(b|a)(c{1,3})?|x");
  const ExpressionId all = Regex(pool, "[a-c]{0,3}");
  const ExpressionId endless = Regex(pool, "ab*c");
  const ExpressionId long_text = Regex(pool, "a{1000000}");
  const ExpressionId refused[] = {all, pool.Not(few)};
  const ExpressionId common = pool.And(refused);
  const ExpressionId call = pool.Concat(pool.Literal("a"), pool.OneLetter({LetterKind::kCall, 1}));
  Automaton automaton(pool, 10'000);
  std::vector<std::string> texts;
  ASSERT_TRUE(automaton.ListTexts(automaton.Start(few), 9, texts));
  EXPECT_EQ(texts,
            (std::vector<std::string>{"a", "ac", "acc", "accc", "b", "bc", "bcc", "bccc", "x"}));
  EXPECT_FALSE(automaton.ListTexts(automaton.Start(few), 8, texts));
  ASSERT_TRUE(automaton.ListTexts(automaton.Start(all), 40, texts));
  EXPECT_EQ(texts.size(), 40u);
  ASSERT_TRUE(automaton.ListTexts(automaton.Start(common), 40, texts));
  EXPECT_EQ(texts.size(), 34u);
  EXPECT_FALSE(automaton.ListTexts(automaton.Start(endless), 1000, texts));
  EXPECT_FALSE(automaton.ListTexts(automaton.Start(call), 1000, texts));
  EXPECT_TRUE(automaton.ListTexts(kDeadState, 0, texts));
  EXPECT_TRUE(texts.empty());
  EXPECT_FALSE(automaton.exhausted());
  EXPECT_FALSE(automaton.ListTexts(automaton.Start(long_text), 10, texts));
}

TEST(Automaton, StopsAtItsBounds) {
  ExpressionPool pool;
  const ExpressionId text = pool.Literal("a text that is longer");
  Automaton automaton(pool, 5);
  Read(automaton, automaton.Start(text), "a text that");
  EXPECT_TRUE(automaton.exhausted());
  EXPECT_LE(automaton.n_states(), 6u);

  // Texts of And are searched: here the shortest has two million bytes.
  ExpressionPool other;
  const ExpressionId both[] = {other.Repeat(other.Literal("ab"), 1'000'000, kNoMaximum),
                               other.Repeat(other.Literal("abab"), 1, kNoMaximum)};
  Automaton bounded(other, 1'000);
  bounded.Start(other.And(both));
  EXPECT_TRUE(bounded.exhausted());
}

// 30 parts of a conjunction, each with two alternatives that may stand anywhere.
TEST(Automaton, SearchesConjunctionsOfManyAlternatives) {
  ExpressionPool pool;
  std::vector<ExpressionId> parts;
  for (int i = 0; i < 30; ++i) {
    const std::string number = std::to_string(i);
    parts.push_back(*ParseRegex(pool, "a" + number + ";|b" + number + ";", {}));
  }
  const ExpressionId possible = pool.And(parts);
  parts.push_back(Regex(pool, "([ab][0-9]+;){1,29}"));
  const ExpressionId impossible = pool.And(parts);
  Automaton automaton(pool, 100'000);
  const StateId start = automaton.Start(possible);
  ASSERT_NE(start, kDeadState);
  std::string text;
  for (int i = 0; i < 30; ++i) text += (i % 2 == 0 ? "a" : "b") + std::to_string(i) + ";";
  EXPECT_TRUE(automaton.Accepts(Read(automaton, start, text)));
  EXPECT_FALSE(automaton.exhausted());
  // 2^30 combinations cannot be searched: the search ends, and says so.
  automaton.Start(impossible);
  EXPECT_TRUE(automaton.exhausted());
}

TEST(Automaton, FindsThatNothingMatches) {
  ExpressionPool pool;
  const ExpressionId even = Regex(pool, "(aa)+");
  const ExpressionId odd = Regex(pool, "a(aa)*");
  const ExpressionId both[] = {even, odd};
  const ExpressionId none = pool.And(both);
  ASSERT_NE(none, pool.Nothing());
  const ExpressionId call = pool.OneLetter({LetterKind::kCall, 3});
  const ExpressionId branches[] = {pool.Concat(none, call), pool.Literal("x")};
  const ExpressionId hidden = pool.Or(branches);
  const ExpressionId until[] = {Regex(pool, "b?c"), pool.Not(pool.Literal("bc"))};
  const ExpressionId only_c = pool.And(until);
  Automaton automaton(pool, 1'000);
  EXPECT_EQ(automaton.Start(none), kDeadState);
  EXPECT_EQ(automaton.Start(pool.Concat(pool.Literal("a"), none)), kDeadState);
  EXPECT_EQ(automaton.Start(hidden), automaton.Start(pool.Literal("x")));
  EXPECT_EQ(automaton.Next(automaton.Start(hidden), 'a'), kDeadState);
  EXPECT_EQ(automaton.Next(automaton.Start(only_c), 'b'), kDeadState);
  EXPECT_TRUE(automaton.TakesBytes(automaton.Start(only_c)));
  EXPECT_FALSE(automaton.TakesBytes(automaton.Start(call)));
  EXPECT_FALSE(automaton.TakesBytes(kDeadState));
}

TEST(Automaton, FollowsLetters) {
  ExpressionPool pool;
  const ExpressionId call = pool.OneLetter({LetterKind::kCall, 7});
  const ExpressionId token = pool.OneLetter({LetterKind::kToken, 7});
  const ExpressionId mark = pool.OneLetter({LetterKind::kMark, 1});
  const ExpressionId parts[] = {pool.Concat(call, pool.Literal("a")), pool.Concat(call, mark),
                                token, pool.Literal("b")};
  Automaton automaton(pool, 100);
  const StateId start = automaton.Start(pool.Concat(pool.Optional(mark), pool.Or(parts)));
  ASSERT_EQ(automaton.Edges(start).size(), 3u);
  const std::vector<LetterEdge> edges(automaton.Edges(start).begin(), automaton.Edges(start).end());
  EXPECT_EQ(edges[0].letter, (Letter{LetterKind::kToken, 7}));
  EXPECT_EQ(edges[1].letter, (Letter{LetterKind::kCall, 7}));
  EXPECT_EQ(edges[2].letter, (Letter{LetterKind::kMark, 1}));
  EXPECT_TRUE(automaton.Accepts(edges[0].target));
  EXPECT_TRUE(automaton.Accepts(automaton.Next(edges[1].target, 'a')));
  EXPECT_EQ(automaton.Edges(edges[1].target).size(), 1u);
  EXPECT_EQ(automaton.Edges(edges[2].target).size(), 2u);
  EXPECT_TRUE(automaton.TakesBytes(edges[2].target));
}

}  // namespace
}  // namespace fathom::constraint
