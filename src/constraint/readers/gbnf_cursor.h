// GbnfCursor: a place in the text of a GBNF grammar that moves to the right, and the first error.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint_error.h"

namespace fathom {

// "line:column" of an offset. Columns count code points; both numbers begin with 1. Linear in
// `offset`.
std::string GbnfPlace(std::string_view source, std::size_t offset);
ConstraintIssue GbnfIssue(std::string_view source, std::size_t offset, std::string reason);
// `issues` must not be empty.
tl::unexpected<ConstraintError> GbnfError(ConstraintErrorCode code,
                                          std::vector<ConstraintIssue> issues);

// Reads valid UTF-8, which must outlive the cursor. After a failure the cursor is at the end, so
// that loops over the text end as well.
class GbnfCursor {
 public:
  explicit GbnfCursor(std::string_view source) : source_(source) {}

  std::size_t offset() const { return offset_; }
  bool AtEnd() const { return offset_ == source_.size(); }
  // Must not be at the end.
  char Peek() const { return source_[offset_]; }
  bool At(std::string_view text) const { return source_.substr(offset_).starts_with(text); }
  bool AtNewline() const { return At("\n") || At("\r"); }
  std::string_view TextFrom(std::size_t begin) const {
    return source_.substr(begin, offset_ - begin);
  }
  // The text that is not read yet.
  std::string_view Rest() const { return source_.substr(offset_); }

  // Moves on by bytes that are there.
  void Skip(std::size_t n_bytes) { offset_ += n_bytes; }
  // Moves past the text if it comes next.
  bool Take(std::string_view text);
  // Moves past blanks and comments; with `newlines` also past the ends of lines.
  void SkipBlanks(bool newlines);
  // Moves past the name of a rule (letters, digits, - and _); "" if no name comes next.
  std::string_view ReadName();
  // Moves past decimal digits; nothing if no digit comes next. Values above 10^9 become 10^9.
  std::optional<std::size_t> ReadNumber();
  // Moves past one code point. Must not be at the end.
  char32_t ReadCodePoint();

  // Records the error that something else was expected here, unless there is an error already.
  void Expected(std::string_view what);
  void FailAt(std::size_t offset, ConstraintErrorCode code, std::string reason);
  bool failed() const { return failure_.has_value(); }
  // The error. There must be one.
  tl::unexpected<ConstraintError> Error() const;

 private:
  struct Failure {
    std::size_t offset;
    ConstraintErrorCode code;
    std::string reason;
  };
  std::string_view source_;
  std::size_t offset_ = 0;
  std::optional<Failure> failure_{};
};

}  // namespace fathom
