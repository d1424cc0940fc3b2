#include "constraint/readers/spelling.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"
#include "constraint/grammar/automaton.h"

namespace fathom::constraint {
namespace {

StateId After(Automaton& automaton, StateId state, std::string_view text) {
  for (const char c : text) state = automaton.Next(state, static_cast<std::uint8_t>(c));
  return state;
}

std::string Encoded(char32_t code_point) {
  std::string text;
  AppendUtf8(code_point, text);
  return text;
}

TEST(Spelling, Utf8TakesWellFormedSequencesOnly) {
  ExpressionPool pool;
  const ExpressionId text = pool.Repeat(Utf8(pool, AllCodePoints()), 0, kNoMaximum);
  Automaton automaton(pool, 1000);
  const StateId start = automaton.Start(text);
  const auto compare = [&](const std::string& bytes) {
    ASSERT_EQ(automaton.Accepts(After(automaton, start, bytes)), IsValidUtf8(bytes))
        << fmt::format("{:02x}", fmt::join(bytes, " "));
  };
  // Boundaries of what the standard allows, each alone, in pairs and in all longer sequences.
  const std::string edges =
      "\x20\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5"
      "\xff";
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      compare({static_cast<char>(a), static_cast<char>(b)});
    }
  }
  for (const char a : edges) {
    for (const char b : edges) {
      for (const char c : edges) {
        compare({a, b, c});
        for (const char d : edges) compare({a, b, c, d});
      }
    }
  }
  EXPECT_LE(automaton.n_states(), 9u);
}

TEST(Spelling, Utf8OfASetTakesItsCodePoints) {
  const CodePointSet set = MakeCodePointSet({{'a', 'c'},
                                             {0x7E, 0x81},
                                             {0x7FE, 0x802},
                                             {0xD7F0, 0xE001},
                                             {0xFFF0, 0x1000F},
                                             {0x1F600, 0x1F64F},
                                             {0x10FFFE, 0x10FFFF}});
  ExpressionPool pool;
  const ExpressionId one = Utf8(pool, set);
  Automaton automaton(pool, 10'000);
  const StateId start = automaton.Start(one);
  for (char32_t c = 0; c <= kMaxCodePoint; c += c < 0x11000 || c > 0x10FF00 ? 1 : 13) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(automaton.Accepts(After(automaton, start, Encoded(c))), Contains(set, c))
        << static_cast<std::uint32_t>(c);
  }
  for (const std::string_view surrogate : {"\xed\xa0\x80", "\xed\xbf\xbf"}) {
    EXPECT_EQ(After(automaton, start, surrogate), kDeadState);
  }
}

TEST(Spelling, JsonHasOneSpellingEach) {
  ExpressionPool pool;
  const ExpressionId any = SpellInJson(pool, AllCodePoints());
  const ExpressionId few = SpellInJson(pool, {{0x08, 0x0B}, {0x1F, 0x22}, {'\\', '\\'}});
  Automaton automaton(pool, 1000);
  const StateId start = automaton.Start(any);
  const StateId start_of_few = automaton.Start(few);
  const auto takes = [&](StateId state, std::string_view text) {
    return automaton.Accepts(After(automaton, state, text));
  };
  for (char32_t c = 0; c < 0x300; ++c) {
    const bool is_raw = c >= 0x20 && c != '"' && c != '\\';
    EXPECT_EQ(takes(start, Encoded(c)), is_raw) << static_cast<std::uint32_t>(c);
    const bool is_short =
        std::string_view("\b\f\n\r\t").find(static_cast<char>(c)) != std::string_view::npos &&
        c < 0x20;
    EXPECT_EQ(takes(start, fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c))),
              c < 0x20 && !is_short)
        << static_cast<std::uint32_t>(c);
  }
  for (const std::string_view escape : {"\\\"", "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"}) {
    EXPECT_TRUE(takes(start, escape)) << escape;
  }
  for (const std::string_view escape : {"\\/", "\\u001F", "\\u000A", "\\v", "\\a", "\\u0020"}) {
    EXPECT_FALSE(takes(start, escape)) << escape;
  }
  for (const std::string_view text :
       {"\\b", "\\t", "\\n", "\\u000b", "\\u001f", " ", "!", "\\\"", "\\\\"}) {
    EXPECT_TRUE(takes(start_of_few, text)) << text;
  }
  for (const std::string_view text : {"\\f", "\\r", "\\u0001", "#", "a", "\\u000a"}) {
    EXPECT_FALSE(takes(start_of_few, text)) << text;
  }
}

}  // namespace
}  // namespace fathom::constraint
