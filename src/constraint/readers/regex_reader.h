// RegexReader: the text of a regular expression, code point by code point, and its escapes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "constraint/constraint_error.h"
#include "constraint/readers/code_points.h"
#include "constraint/readers/text_cursor.h"

namespace fathom::constraint {

// After the first error the reader is at the end.
class RegexReader : public TextCursor {
 public:
  using TextCursor::TextCursor;

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

  std::optional<ConstraintError> error_;
};

}  // namespace fathom::constraint
