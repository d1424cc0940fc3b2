#include "constraint/readers/regex_reader.h"

#include <fmt/format.h>

#include <utility>

#include "base/parse_text.h"
#include "base/utf8.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kQuotedRegexBytes = 40;

bool IsRegexLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsRegexDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHighSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool IsLowSurrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

// \d, \w and \s and their complements. \s is ECMA-262's WhiteSpace and LineTerminator.
std::optional<CodePointSet> ClassOfEscape(char c) {
  switch (c) {
    case 'd':
      return CodePointSet{{'0', '9'}};
    case 'w':
      return CodePointSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return CodePointSet{{'\t', '\r'},           {' ', ' '},
                          {U'\u00A0', U'\u00A0'}, {U'\u1680', U'\u1680'},
                          {U'\u2000', U'\u200A'}, {U'\u2028', U'\u2029'},
                          {U'\u202F', U'\u202F'}, {U'\u205F', U'\u205F'},
                          {U'\u3000', U'\u3000'}, {U'\uFEFF', U'\uFEFF'}};
    case 'D':
    case 'W':
    case 'S':
      return Complement(*ClassOfEscape(static_cast<char>(c - 'A' + 'a')));
    default:
      return std::nullopt;
  }
}

std::optional<char32_t> ControlOfEscape(char c) {
  constexpr std::string_view kLetters = "tnvfr";
  constexpr std::string_view kControls = "\t\n\v\f\r";
  const std::size_t index = kLetters.find(c);
  if (index == std::string_view::npos) return std::nullopt;
  return static_cast<char32_t>(kControls[index]);
}

}  // namespace

std::optional<std::string_view> RegexReader::TakeUntil(char end) {
  const std::size_t found = text_.find(end, at_);
  if (found == text_.npos) return std::nullopt;
  const std::string_view taken = text_.substr(at_, found - at_);
  at_ = found + 1;
  return taken;
}

std::optional<char32_t> RegexReader::TakeHex(std::size_t digits) {
  if (text_.size() - at_ < digits) return std::nullopt;
  char32_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int digit = HexDigit(text_[at_ + i]);
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<char32_t>(digit);
  }
  at_ += digits;
  return value;
}

char32_t RegexReader::TakeUnicodeEscape() {
  const std::size_t begin = at_;
  if (Take('{')) {
    const std::optional<std::string_view> digits = TakeUntil('}');
    char32_t value = 0;
    for (const char c : digits.value_or("")) {
      const int digit = HexDigit(c);
      value = digit < 0 || value > kMaxCodePoint ? kMaxCodePoint + 1
                                                 : value << 4 | static_cast<char32_t>(digit);
    }
    if (!digits || digits->empty() || value > kMaxCodePoint) {
      FailInvalid(begin, "expected hexadecimal digits of a code point and } after \\u{");
    }
    return value;
  }
  const std::optional<char32_t> high = TakeHex(4);
  if (!high) {
    FailInvalid(begin, "expected four hexadecimal digits after \\u");
    return 0;
  }
  const std::size_t after = at_;
  if (IsHighSurrogate(*high) && Take("\\u")) {
    const std::optional<char32_t> low = TakeHex(4);
    if (low && IsLowSurrogate(*low)) {
      return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
    }
    at_ = after;
  }
  return *high;
}

CodePointSet RegexReader::TakeProperty(bool negated) {
  const std::size_t begin = at_;
  std::string_view name = text_.substr(at_, 1);  // \pL
  if (Take('{')) {
    const std::optional<std::string_view> braced = TakeUntil('}');
    if (!braced) {
      FailInvalid(begin, "expected } after the name of a property");
      return {};
    }
    name = *braced;
    if (name.starts_with('^')) {
      name.remove_prefix(1);
      negated = !negated;
    }
  } else if (!AtEnd()) {
    TakeCodePoint();
  }
  for (const std::string_view prefix : {"gc=", "General_Category="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::optional<CodePointSet> set = GeneralCategory(name);
  if (name == "Any") set = AllCodePoints();
  if (name == "ASCII") set = CodePointSet{{0, 0x7F}};
  if (name == "Assigned") set = Complement(*GeneralCategory("Cn"));
  if (!set) {
    FailUnsupported(begin, fmt::format("the property {}", ShortenedUtf8(name, kQuotedRegexBytes)));
    return {};
  }
  return negated ? Complement(*set) : *std::move(set);
}

char32_t RegexReader::TakeIdentityEscape(bool in_class) {
  const std::size_t begin = at_ - 1;
  const char c = Peek();
  if (IsRegexDigit(c)) {
    ++at_;
    if (c == '0' && !IsRegexDigit(Peek())) return 0;
    if (c == '0' || in_class) {
      FailUnsupported(begin, "an octal escape");
    } else {
      FailUnsupported(begin, "a back-reference");
    }
    return 0;
  }
  if (IsRegexLetter(c)) {
    const bool is_word_boundary = c == 'b' || c == 'B';
    const bool is_reference = c == 'k';
    FailUnsupported(begin, is_word_boundary ? std::string("a word boundary")
                           : is_reference   ? std::string("a back-reference")
                                            : fmt::format("the escape \\{}", c));
    return 0;
  }
  return TakeCodePoint();
}

RegexReader::Escape RegexReader::TakeEscape(bool in_class) {
  const std::size_t begin = at_ - 1;
  if (AtEnd()) {
    FailInvalid(begin, "expected a character after \\");
    return {};
  }
  const char c = Peek();
  if (std::optional<CodePointSet> set = ClassOfEscape(c)) {
    ++at_;
    return {.set = *std::move(set)};
  }
  std::optional<char32_t> code_point = ControlOfEscape(c);
  if (in_class && c == 'b') code_point = U'\b';
  if (code_point) {
    ++at_;
  } else if (Take('p') || Take('P')) {
    return {.set = TakeProperty(c == 'P')};
  } else if (Take('x')) {
    code_point = TakeHex(2);
    if (!code_point) FailInvalid(begin, "expected two hexadecimal digits after \\x");
  } else if (Take('u')) {
    code_point = TakeUnicodeEscape();
  } else if (Take('c')) {
    const char letter = Peek();
    if (!IsRegexLetter(letter)) {
      FailInvalid(begin, "expected a letter after \\c");
      return {};
    }
    ++at_;
    code_point = static_cast<char32_t>(letter) % 32;
  } else {
    code_point = TakeIdentityEscape(in_class);
  }
  const char32_t value = code_point.value_or(0);
  return {.set = MakeCodePointSet({{value, value}}), .code_point = value};
}

void RegexReader::Fail(ConstraintErrorCode code, std::string reason) {
  at_ = text_.size();
  if (!error_) error_ = MakeConstraintError(code, std::move(reason)).value();
}

void RegexReader::FailInvalid(std::size_t offset, std::string_view expected) {
  const std::string_view found = text_.substr(offset);
  Fail(ConstraintErrorCode::kInvalidSchema,
       fmt::format("regular expression, byte {}: {}, found {}", offset, expected,
                   found.empty() ? std::string("the end")
                                 : fmt::format("'{}'", ShortenedUtf8(found, kQuotedRegexBytes))));
}

void RegexReader::FailUnsupported(std::size_t offset, std::string_view what) {
  Fail(ConstraintErrorCode::kUnsupportedSchema,
       fmt::format("regular expression, byte {}: expected what is supported, found {}", offset,
                   what));
}

void RegexReader::FailTooLarge(std::string_view what) {
  Fail(ConstraintErrorCode::kTooLarge, fmt::format("regular expression: {}", what));
}

}  // namespace fathom::constraint
