// GbnfCursor: a place in the text of a GBNF grammar that moves to the right, and the first error.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/readers/text_cursor.h"

namespace fathom::constraint {

// "line:column" of an offset. Columns count code points; both numbers begin with 1. Linear in
// `offset`.
std::string GbnfPlace(std::string_view source, std::size_t offset);
ConstraintIssue GbnfIssue(std::string_view source, std::size_t offset, std::string reason);
// `issues` must not be empty.
tl::unexpected<ConstraintError> GbnfError(ConstraintErrorCode code,
                                          std::vector<ConstraintIssue> issues);

// After a failure the cursor is at the end, so that loops over the text end as well.
class GbnfCursor : public TextCursor {
 public:
  using TextCursor::TextCursor;

  bool At(std::string_view text) const { return Rest().starts_with(text); }
  bool AtNewline() const { return Peek() == '\n' || Peek() == '\r'; }
  std::string_view TextFrom(std::size_t begin) const { return text_.substr(begin, at_ - begin); }

  // Moves on by bytes that are there.
  void Skip(std::size_t n_bytes) { at_ += n_bytes; }
  // Moves past blanks and comments; with `newlines` also past the ends of lines.
  void SkipBlanks(bool newlines);
  // Moves past the name of a rule (letters, digits, - and _); "" if no name comes next.
  std::string_view ReadName();

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
  std::optional<Failure> failure_{};
};

}  // namespace fathom::constraint
