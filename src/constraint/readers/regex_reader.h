// RegexReader: the text of a regular expression, code point by code point, and its escapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "constraint/constraint_error.h"
#include "constraint/readers/code_points.h"

namespace fathom {

// After the first error the reader is at the end.
class RegexReader {
 public:
  // `text` is valid UTF-8 and must outlive the reader.
  explicit RegexReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ == text_.size(); }
  std::size_t offset() const { return at_; }
  // The next byte, or 0 at the end.
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c);
  bool Take(std::string_view text);
  // The next code point; the reader must not be at the end.
  char32_t TakeCodePoint();
  // Digits as a number, at most kNoMaximum - 1; nothing if there are none.
  std::optional<std::uint32_t> TakeNumber();
  // The text up to `end`, which is taken too; nothing if there is no `end`.
  std::optional<std::string_view> TakeUntil(char end);
  void GoBackTo(std::size_t offset) { at_ = offset; }

  // An escape after its \: one code point, or a set of them.
  struct Escape {
    CodePointSet set;
    std::optional<char32_t> code_point;
  };
  Escape TakeEscape(bool in_class);

  // Keeps the first error: `expected` was not found at `offset`.
  void FailInvalid(std::size_t offset, std::string_view expected);
  void FailUnsupported(std::size_t offset, std::string_view what);
  void FailTooLarge(std::string_view what);
  bool failed() const { return error_.has_value(); }
  const ConstraintError& error() const { return *error_; }

 private:
  void Fail(ConstraintErrorCode code, std::string reason);
  std::optional<char32_t> TakeHex(std::size_t digits);
  // The rest of an escape after \u: of \uHHHH, a pair of surrogates, or \u{H...}.
  char32_t TakeUnicodeEscape();
  CodePointSet TakeProperty(bool negated);
  char32_t TakeIdentityEscape(bool in_class);

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<ConstraintError> error_;
};

}  // namespace fathom
