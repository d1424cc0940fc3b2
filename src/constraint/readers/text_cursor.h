// TextCursor: a place in a text that moves to the right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fathom::constraint {

class TextCursor {
 public:
  // `text` is valid UTF-8 and must outlive the cursor.
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ == text_.size(); }
  std::size_t offset() const { return at_; }
  // The text that is not read yet.
  std::string_view Rest() const { return text_.substr(at_); }
  // The next byte, or 0 at the end.
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  // Moves past the text if it comes next.
  bool Take(std::string_view text);
  bool Take(char c) { return Take(std::string_view(&c, 1)); }
  // Moves past one code point. Must not be at the end.
  char32_t TakeCodePoint();
  // Moves past decimal digits; nothing if no digit comes next. Larger values become
  // kNoMaximum - 1.
  std::optional<std::uint32_t> TakeNumber();

 protected:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace fathom::constraint
