#include "constraint/readers/gbnf_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace fathom::constraint {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string GbnfPlace(std::string_view source, std::size_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  const auto column = 1 + std::ranges::count_if(in_line, [](char c) { return !IsContinuation(c); });
  return fmt::format("{}:{}", line, column);
}

ConstraintIssue GbnfIssue(std::string_view source, std::size_t offset, std::string reason) {
  return {.pointer = GbnfPlace(source, offset), .reason = std::move(reason)};
}

tl::unexpected<ConstraintError> GbnfError(ConstraintErrorCode code,
                                          std::vector<ConstraintIssue> issues) {
  std::string message = fmt::format("grammar, {}: {}", issues[0].pointer, issues[0].reason);
  return tl::unexpected<ConstraintError>(
      ConstraintError{code, std::move(message), std::move(issues)});
}

void GbnfCursor::SkipBlanks(bool newlines) {
  while (!AtEnd()) {
    if (Peek() == '#') {
      at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
    } else if (Peek() == ' ' || Peek() == '\t' || (newlines && AtNewline())) {
      ++at_;
    } else {
      return;
    }
  }
}

std::string_view GbnfCursor::ReadName() {
  const std::size_t begin = at_;
  while (IsNameCharacter(Peek())) ++at_;
  return TextFrom(begin);
}

void GbnfCursor::Expected(std::string_view what) {
  std::string found = "the end of the grammar";
  if (AtNewline()) {
    found = "the end of the line";
  } else if (!AtEnd()) {
    const std::size_t begin = at_;
    TakeCodePoint();
    found = std::string(TextFrom(begin));
    at_ = begin;
  }
  FailAt(at_, ConstraintErrorCode::kInvalidGrammar,
         fmt::format("expected {}, found {}", what, found));
}

void GbnfCursor::FailAt(std::size_t offset, ConstraintErrorCode code, std::string reason) {
  if (!failure_) failure_ = {offset, code, std::move(reason)};
  at_ = text_.size();
}

tl::unexpected<ConstraintError> GbnfCursor::Error() const {
  return GbnfError(failure_->code, {GbnfIssue(text_, failure_->offset, failure_->reason)});
}

}  // namespace fathom::constraint
