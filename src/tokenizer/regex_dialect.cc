#include "tokenizer/regex_dialect.h"

#include <cstddef>

namespace fathom {
namespace {

// The White_Space property of Unicode, as the inside of a character class.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kMajorCategories = "LMNPSZC";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Translate() {
    while (!AtEnd()) {
      Status status = TranslateOne();
      if (!status) return Unexpected(status.error());
    }
    return std::move(translated_);
  }

 private:
  bool AtEnd() const { return position_ == pattern_.size(); }
  std::string_view Rest() const { return pattern_.substr(position_); }

  void Copy(std::size_t n_bytes) {
    translated_ += pattern_.substr(position_, n_bytes);
    position_ += n_bytes;
  }

  void Replace(std::size_t n_bytes, std::string_view by) {
    translated_ += by;
    position_ += n_bytes;
  }

  tl::unexpected<Error> Unsupported(std::string_view what) const {
    return MakeError(ErrorCode::kUnsupported,
                     "pattern '{}': {} at byte {} is not supported (supported: literals, classes "
                     "without set operations, \\s \\S \\d \\D \\r \\n \\t, \\p{{..}} of a general "
                     "category, groups, (?:..) (?=..) (?!..), | * + ? {{n,m}})",
                     pattern_, what, position_);
  }

  Status TranslateOne() {
    switch (pattern_[position_]) {
      case '\\':
        return TranslateEscape(/*in_class=*/false);
      case '[':
        return TranslateClass();
      case '(':
        return TranslateGroup();
      case '{':
        return TranslateCount();
      case '^':
      case '$':
      case '.':
        return Unsupported(pattern_.substr(position_, 1));
      default:
        Copy(1);
        return {};
    }
  }

  Status TranslateEscape(bool in_class) {
    if (Rest().size() < 2) {
      return Unsupported("a lone '\\'");
    }
    const char escaped = pattern_[position_ + 1];
    if (escaped == 's') {
      Replace(2, in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace));
      return {};
    }
    if (escaped == 'S' && !in_class) {
      Replace(2, fmt::format("[^{}]", kWhiteSpace));
      return {};
    }
    if (escaped == 'p' || escaped == 'P') {
      return TranslateCategory();
    }
    if (std::string_view("dDrnt").find(escaped) != std::string_view::npos ||
        kAsciiPunctuation.find(escaped) != std::string_view::npos) {
      Copy(2);
      return {};
    }
    return Unsupported(pattern_.substr(position_, 2));
  }

  // \p{L}, \p{Lu}: one capital and at most one small letter. Scripts are refused: PCRE2 means
  // script extensions by the same name.
  Status TranslateCategory() {
    const std::string_view rest = Rest();
    const std::size_t end = rest.find('}');
    const bool has_form = (end == 4 || end == 5) && rest[2] == '{' &&
                          kMajorCategories.find(rest[3]) != std::string_view::npos &&
                          (end == 4 || (rest[4] >= 'a' && rest[4] <= 'z'));
    if (!has_form) {
      return Unsupported(rest.substr(0, end == std::string_view::npos ? 2 : end + 1));
    }
    Copy(end + 1);
    return {};
  }

  Status TranslateClass() {
    Copy(1);
    if (Rest().starts_with('^')) {
      Copy(1);
    }
    if (Rest().starts_with(']')) {
      return Unsupported("']' at the start of a class");
    }
    while (!Rest().starts_with(']')) {
      if (AtEnd()) {
        return Unsupported("a class without end");
      }
      if (Rest().starts_with('[') || Rest().starts_with("&&")) {
        return Unsupported("a set operation in a class");
      }
      if (Rest().starts_with('\\')) {
        Status status = TranslateEscape(/*in_class=*/true);
        if (!status) return status;
      } else {
        Copy(1);
      }
    }
    Copy(1);
    return {};
  }

  Status TranslateGroup() {
    for (const std::string_view opener : {"(?:", "(?=", "(?!"}) {
      if (Rest().starts_with(opener)) {
        Copy(opener.size());
        return {};
      }
    }
    if (Rest().starts_with("(?") || Rest().starts_with("(*")) {
      return Unsupported(Rest().substr(0, 3));
    }
    Copy(1);
    return {};
  }

  // {n}, {n,} or {n,m}, and no suffix: the dialects disagree on {,n}, {n}? and {n}+.
  Status TranslateCount() {
    const std::string_view rest = Rest();
    const std::size_t comma = rest.find_first_not_of(kDigits, 1);
    bool has_form = comma != 1 && comma != std::string_view::npos;
    std::size_t end = comma;
    if (has_form && rest[comma] == ',') {
      end = rest.find_first_not_of(kDigits, comma + 1);
    }
    has_form = has_form && end != std::string_view::npos && rest[end] == '}';
    const char next = has_form && end + 1 < rest.size() ? rest[end + 1] : '\0';
    if (!has_form || next == '?' || next == '+') {
      return Unsupported("this form of '{'");
    }
    Copy(end + 1);
    return {};
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  std::string translated_;
};

}  // namespace

Result<std::string> ToPcre2Pattern(std::string_view pattern) {
  return Translator(pattern).Translate();
}

}  // namespace fathom
