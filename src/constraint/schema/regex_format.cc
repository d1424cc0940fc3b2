#include "constraint/schema/regex_format.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace fathom {
namespace {

constexpr int kMaxNestedGroups = 8;

// A character within a class of our own regular expression.
std::string ClassCharacter(char c) { return fmt::format("\\x{:02X}", static_cast<unsigned>(c)); }

// Whole numbers >= n, without leading zeros; n < 20.
std::string AtLeast(int n) {
  if (n < 10) return fmt::format("[{}-9]|[1-9][0-9]+", n);
  return fmt::format("1[{}-9]|[2-9][0-9]|[1-9][0-9]{{2,}}", n - 10);
}

std::string Quantifier() {
  constexpr int kMaxLower = 20;
  std::string bounds = "[0-9]+,?";
  for (int n = 0; n < kMaxLower; ++n) bounds += fmt::format("|{},(?:{})", n, AtLeast(n));
  const std::string lazy = "\\?";
  return fmt::format("(?:(?:[*+?]|\\{{(?:{})\\}})(?:{})?)?", bounds, lazy);
}

// The rest of an escape after its backslash: for a character or, with `sets`, also for a set.
std::string Escape(bool sets) {
  std::string escape =
      "c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\\{0{0,4}[0-9A-Fa-f]{1,5}\\}|"
      "[fnrtv0]|[!-/:-@\\x5B-`{-~]";
  if (sets) escape += "|[dDwWsS]|[pP]\\{[A-Za-z_]+(?:=[A-Za-z_]+)?\\}";
  return fmt::format("\\\\(?:{})", escape);
}

// A class in brackets. A character is no end of a range, but the dash may come first or last.
std::string Class() {
  const std::string_view special = "\\]-";
  std::string plain;
  std::string ranges;
  for (char c = ' '; c <= '~'; ++c) {
    if (special.find(c) != std::string_view::npos) continue;
    plain += ClassCharacter(c);
    // Up to a printable character that stands for itself, or beyond ASCII.
    std::string ends;
    for (int end = c; end <= '~'; ++end) {
      if (special.find(static_cast<char>(end)) == std::string_view::npos) {
        ends += ClassCharacter(static_cast<char>(end));
      }
    }
    ranges += fmt::format("|[{}]-[{}\\u0080-\\uFFFF]", ClassCharacter(c), ends);
  }
  const std::string character = Escape(/*sets=*/false);
  const std::string first = fmt::format("[{}\\u0080-\\u{{10FFFF}}]", plain);
  const std::string element = fmt::format("(?:{0}|{1}{2}|{3}-(?:{3}|{0}))", first,
                                          Escape(/*sets=*/true), ranges, character);
  return fmt::format("\\[\\^?(?:-{0}*-?|{0}+-?)\\]", element);
}

}  // namespace

ExpressionId RegexFormat(TextWriter& writer) {
  ExpressionPool& pool = writer.pool();
  const std::string name = "<[A-Za-z_$][0-9A-Za-z_$]*>";
  const ExpressionId atom =
      writer.Whole(fmt::format("[^\\\\^$.*+?()\\[\\]{{}}|]|\\.|{}|{}|\\\\[1-9]|\\\\k{}",
                               Escape(/*sets=*/true), Class(), name));
  const ExpressionId assertion = writer.Whole("[|^$]|\\\\[bB]");
  const ExpressionId quantifier = writer.Whole(Quantifier());
  const ExpressionId open = writer.Whole(fmt::format("\\((?:\\?(?:[:=!]|<[=!]|{}))?", name));
  const ExpressionId close = writer.Whole("\\)");
  const auto any_of = [&](ExpressionId part) {
    const ExpressionId choices[] = {pool.Concat(part, quantifier), assertion};
    return pool.Repeat(pool.Or(choices), 0, kNoMaximum);
  };
  ExpressionId body = any_of(atom);
  for (int i = 0; i < kMaxNestedGroups; ++i) {
    const ExpressionId group[] = {open, body, close};
    const ExpressionId parts[] = {atom, pool.Concat(group)};
    body = any_of(pool.Or(parts));
  }
  return body;
}

}  // namespace fathom
