#include "constraint/readers/gbnf_symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/parse_text.h"
#include "base/utf8.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxRepetitions = 1'000'000;

bool IsSurrogate(char32_t code_point) { return code_point >= 0xD800 && code_point <= 0xDFFF; }

char32_t ReadHexDigits(GbnfCursor& cursor, int n_digits) {
  char32_t value = 0;
  for (int i = 0; i < n_digits; ++i) {
    const int digit = HexDigit(cursor.Peek());
    if (digit < 0) {
      cursor.Expected(fmt::format("{} hexadecimal digits of an escape", n_digits));
      return 0;
    }
    value = value << 4 | static_cast<char32_t>(digit);
    cursor.Skip(1);
  }
  return value;
}

// Reads what follows a backslash.
char32_t ReadEscape(GbnfCursor& cursor) {
  constexpr std::string_view kLetters = "nrt\\\"[]-^xuU";
  constexpr std::string_view kCharacters = "\n\r\t\\\"[]-^";
  constexpr int kDigits[] = {2, 4, 8};  // of \x, \u and \U
  const std::size_t index = kLetters.find(cursor.Peek());
  if (index == std::string_view::npos) {
    cursor.Expected(R"(one of \xHH \uHHHH \UHHHHHHHH \n \r \t \" \\ \[ \] \- \^ )"
                    "behind a backslash");
    return 0;
  }
  cursor.Skip(1);
  if (index < kCharacters.size()) return static_cast<char32_t>(kCharacters[index]);
  return ReadHexDigits(cursor, kDigits[index - kCharacters.size()]);
}

// Reads a code point as it is or escaped.
char32_t ReadCharacter(GbnfCursor& cursor) {
  const std::size_t begin = cursor.offset();
  if (!cursor.Take("\\")) return cursor.TakeCodePoint();
  const char32_t code_point = ReadEscape(cursor);
  if (code_point > kMaxCodePoint) {
    cursor.FailAt(begin, ConstraintErrorCode::kInvalidGrammar,
                  "expected a code point up to U+10FFFF, found a larger one");
  }
  return code_point;
}

void FailUnclosed(GbnfCursor& cursor, std::size_t begin, std::string_view what) {
  cursor.FailAt(begin, ConstraintErrorCode::kInvalidGrammar,
                fmt::format("expected {} before the end of the grammar, found none", what));
}

// Reads the rest of <[id]> after its "<[".
std::optional<Token> ReadTokenId(GbnfCursor& cursor, std::int64_t vocab_size) {
  const std::size_t begin = cursor.offset();
  const std::optional<std::uint32_t> id = cursor.TakeNumber();
  if (!id) {
    cursor.Expected("the id of a token behind <[");
    return std::nullopt;
  }
  if (static_cast<std::int64_t>(*id) >= vocab_size) {
    cursor.FailAt(begin, ConstraintErrorCode::kInvalidGrammar,
                  fmt::format("expected the id of a token below {}, found {}", vocab_size,
                              ShortenedUtf8(cursor.TextFrom(begin), kQuotedBytes)));
    return std::nullopt;
  }
  if (!cursor.Take("]>")) {
    cursor.Expected("]> behind the id of a token");
    return std::nullopt;
  }
  return static_cast<Token>(*id);
}

// Reads the inside of {...} and its closer.
std::optional<GbnfRepeat> ReadBounds(GbnfCursor& cursor, bool newlines) {
  const std::size_t begin = cursor.offset();
  cursor.SkipBlanks(newlines);
  const std::optional<std::uint32_t> minimum = cursor.TakeNumber();
  std::optional<std::uint32_t> maximum = minimum;
  cursor.SkipBlanks(newlines);
  const bool has_comma = cursor.Take(",");
  if (has_comma) {
    cursor.SkipBlanks(newlines);
    maximum = cursor.TakeNumber();
    cursor.SkipBlanks(newlines);
  }
  if (!minimum && !maximum) {
    cursor.Expected("a number of repetitions within {}");
    return std::nullopt;
  }
  if (!cursor.Take("}")) {
    cursor.Expected(has_comma ? "}" : ", or }");
    return std::nullopt;
  }
  const std::size_t most = std::max(minimum.value_or(0), maximum.value_or(0));
  if (most > kMaxRepetitions) {
    cursor.FailAt(begin, ConstraintErrorCode::kTooLarge,
                  fmt::format("expected at most {} repetitions", kMaxRepetitions));
  } else if (maximum && *maximum < minimum.value_or(0)) {
    cursor.FailAt(begin, ConstraintErrorCode::kInvalidGrammar,
                  fmt::format("expected a maximum of at least {}, found {}", *minimum, *maximum));
  }
  return GbnfRepeat{minimum.value_or(0), maximum.value_or(kNoMaximum)};
}

}  // namespace

void ReadGbnfLiteral(GbnfCursor& cursor, std::string& text) {
  const std::size_t begin = cursor.offset();
  cursor.Skip(1);
  while (!cursor.AtEnd() && cursor.Peek() != '"') {
    const std::size_t place = cursor.offset();
    const char32_t code_point = ReadCharacter(cursor);
    if (IsSurrogate(code_point)) {
      cursor.FailAt(place, ConstraintErrorCode::kInvalidGrammar,
                    "expected a code point, found a surrogate");
    }
    if (!cursor.failed()) AppendUtf8(code_point, text);
  }
  if (!cursor.Take("\"")) FailUnclosed(cursor, begin, "\" of the literal");
}

CodePointSet ReadGbnfClass(GbnfCursor& cursor) {
  const std::size_t begin = cursor.offset();
  cursor.Skip(1);
  const bool is_negated = cursor.Take("^");
  std::vector<CodePointRange> ranges;
  while (!cursor.AtEnd() && cursor.Peek() != ']') {
    const std::size_t place = cursor.offset();
    const char32_t first = ReadCharacter(cursor);
    char32_t last = first;
    if (cursor.At("-") && !cursor.At("-]")) {
      cursor.Skip(1);
      if (cursor.AtEnd()) break;
      last = ReadCharacter(cursor);
    }
    if (last < first) {
      cursor.FailAt(place, ConstraintErrorCode::kInvalidGrammar,
                    "expected a range whose last code point is not below its first");
    }
    ranges.push_back({first, last});
  }
  if (ranges.empty() && cursor.At("]")) cursor.Expected("a character of the class");
  if (!cursor.Take("]")) FailUnclosed(cursor, begin, "] of the class");
  const CodePointSet set = MakeCodePointSet(std::move(ranges));
  return is_negated ? Complement(set) : set;
}

std::optional<Token> ReadGbnfToken(GbnfCursor& cursor, const GbnfOptions& options) {
  const std::size_t begin = cursor.offset();
  if (cursor.Take("<[")) return ReadTokenId(cursor, options.vocab_size);
  if (!cursor.At("<")) {
    cursor.Expected("a token, <[id]> or <text>, behind !");
    return std::nullopt;
  }
  const std::size_t length = cursor.Rest().find_first_of(">\r\n");
  if (length == std::string_view::npos || cursor.Rest()[length] != '>') {
    cursor.FailAt(begin, ConstraintErrorCode::kInvalidGrammar,
                  "expected > of the token before the end of the line, found none");
    return std::nullopt;
  }
  const std::string_view text = cursor.Rest().substr(0, length + 1);
  const std::optional<Token> token =
      options.find_token ? options.find_token(text) : std::optional<Token>();
  if (!token) {
    cursor.FailAt(
        begin, ConstraintErrorCode::kInvalidGrammar,
        fmt::format("expected the text of one token, found {}", ShortenedUtf8(text, kQuotedBytes)));
    return std::nullopt;
  }
  cursor.Skip(text.size());
  return token;
}

std::optional<GbnfRepeat> ReadGbnfRepeat(GbnfCursor& cursor, bool newlines) {
  if (cursor.Take("*")) return GbnfRepeat{0, kNoMaximum};
  if (cursor.Take("+")) return GbnfRepeat{1, kNoMaximum};
  if (cursor.Take("?")) return GbnfRepeat{0, 1};
  cursor.Skip(1);
  return ReadBounds(cursor, newlines);
}

}  // namespace fathom::constraint
