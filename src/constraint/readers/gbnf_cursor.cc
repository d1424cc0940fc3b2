#include "constraint/readers/gbnf_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace fathom {
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
  const auto column =
      1 + std::count_if(in_line.begin(), in_line.end(), [](char c) { return !IsContinuation(c); });
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

bool GbnfCursor::Take(std::string_view text) {
  if (!At(text)) return false;
  offset_ += text.size();
  return true;
}

void GbnfCursor::SkipBlanks(bool newlines) {
  while (!AtEnd()) {
    if (Peek() == '#') {
      offset_ = std::min(source_.find_first_of("\r\n", offset_), source_.size());
    } else if (Peek() == ' ' || Peek() == '\t' || (newlines && AtNewline())) {
      ++offset_;
    } else {
      return;
    }
  }
}

std::string_view GbnfCursor::ReadName() {
  const std::size_t begin = offset_;
  while (!AtEnd() && IsNameCharacter(Peek())) ++offset_;
  return TextFrom(begin);
}

std::optional<std::size_t> GbnfCursor::ReadNumber() {
  constexpr std::size_t kMost = 1'000'000'000;
  const std::size_t begin = offset_;
  std::size_t number = 0;
  for (; !AtEnd() && Peek() >= '0' && Peek() <= '9'; ++offset_) {
    number = std::min(kMost, 10 * number + static_cast<std::size_t>(Peek() - '0'));
  }
  if (offset_ == begin) return std::nullopt;
  return number;
}

char32_t GbnfCursor::ReadCodePoint() {
  const auto lead = static_cast<unsigned char>(Peek());
  ++offset_;
  if (lead < 0x80) return lead;
  char32_t code_point = lead < 0xE0 ? lead & 0x1FU : lead < 0xF0 ? lead & 0x0FU : lead & 0x07U;
  while (!AtEnd() && IsContinuation(Peek())) {
    code_point = code_point << 6 | (static_cast<unsigned char>(Peek()) & 0x3FU);
    ++offset_;
  }
  return code_point;
}

void GbnfCursor::Expected(std::string_view what) {
  std::string found = "the end of the grammar";
  if (AtNewline()) {
    found = "the end of the line";
  } else if (!AtEnd()) {
    const std::size_t begin = offset_;
    ReadCodePoint();
    found = std::string(TextFrom(begin));
    offset_ = begin;
  }
  FailAt(offset_, ConstraintErrorCode::kInvalidGrammar,
         fmt::format("expected {}, found {}", what, found));
}

void GbnfCursor::FailAt(std::size_t offset, ConstraintErrorCode code, std::string reason) {
  if (!failure_) failure_ = {offset, code, std::move(reason)};
  offset_ = source_.size();
}

tl::unexpected<ConstraintError> GbnfCursor::Error() const {
  return GbnfError(failure_->code, {GbnfIssue(source_, failure_->offset, failure_->reason)});
}

}  // namespace fathom
