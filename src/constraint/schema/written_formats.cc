// Formats that no regular expression matches: JSON documents and regular expressions themselves.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "constraint/schema/string_formats.h"

namespace fathom::constraint {
namespace {

constexpr int kMaxNestedContent = 12;

class JsonContentWriter {
 public:
  explicit JsonContentWriter(TextWriter& writer) : writer_(writer), pool_(writer.pool()) {
    blank_ = Any(OneOf(" \t\n\r"));
  }

  ExpressionId Document() {
    const ExpressionId string = String();
    ExpressionId value = pool_.Or({string, Number(), Word("true"), Word("false"), Word("null")});
    const ExpressionId scalar = value;
    for (int i = 0; i < kMaxNestedContent; ++i) {
      const ExpressionId item = pool_.Concat({blank_, value, blank_});
      const ExpressionId member = pool_.Concat({blank_, string, blank_, Word(":"), item});
      value = pool_.Or({scalar, pool_.Concat({Word("["), List(item), Word("]")}),
                        pool_.Concat({Word("{"), List(member), Word("}")})});
    }
    return pool_.Concat({blank_, value, blank_});
  }

 private:
  ExpressionId Any(ExpressionId part) { return pool_.Repeat(part, 0, kNoMaximum); }
  ExpressionId OneOf(std::string_view characters) {
    std::vector<CodePointRange> ranges;
    for (const char c : characters) {
      const auto code = static_cast<char32_t>(static_cast<unsigned char>(c));
      ranges.push_back({code, code});
    }
    return writer_.Spell(MakeCodePointSet(std::move(ranges)));
  }
  ExpressionId Word(std::string_view text) {
    std::vector<ExpressionId> parts;
    for (const char c : text) parts.push_back(OneOf({&c, 1}));
    return pool_.Concat(parts);
  }
  ExpressionId List(ExpressionId element) {
    return pool_.Or({blank_, pool_.Concat({element, Any(pool_.Concat({Word(","), element}))})});
  }
  ExpressionId String() {
    const ExpressionId plain = writer_.Spell(Complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
    const ExpressionId hex = OneOf("0123456789abcdefABCDEF");
    const ExpressionId code = pool_.Concat({Word("u"), pool_.Repeat(hex, 4, 4)});
    const ExpressionId escape = pool_.Concat({Word("\\"), pool_.Or({OneOf("\"\\/bfnrt"), code})});
    return pool_.Concat({Word("\""), Any(pool_.Or({plain, escape})), Word("\"")});
  }
  ExpressionId Number() {
    const ExpressionId digit = OneOf("0123456789");
    const ExpressionId digits = pool_.Repeat(digit, 1, kNoMaximum);
    const ExpressionId whole =
        pool_.Or({Word("0"), pool_.Concat({OneOf("123456789"), Any(digit)})});
    const ExpressionId fraction = pool_.Optional(pool_.Concat({Word("."), digits}));
    const ExpressionId exponent =
        pool_.Optional(pool_.Concat({OneOf("eE"), pool_.Optional(OneOf("+-")), digits}));
    return pool_.Concat({pool_.Optional(Word("-")), whole, fraction, exponent});
  }

  TextWriter& writer_;
  ExpressionPool& pool_;
  ExpressionId blank_ = 0;
};

// --- Regular expressions ---

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

ExpressionId JsonContent(TextWriter& writer) { return JsonContentWriter(writer).Document(); }

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
    return pool.Repeat(pool.Or({pool.Concat(part, quantifier), assertion}), 0, kNoMaximum);
  };
  ExpressionId body = any_of(atom);
  for (int i = 0; i < kMaxNestedGroups; ++i) {
    body = any_of(pool.Or({atom, pool.Concat({open, body, close})}));
  }
  return body;
}

}  // namespace fathom::constraint
