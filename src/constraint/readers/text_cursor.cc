#include "constraint/readers/text_cursor.h"

#include <algorithm>

#include "base/utf8.h"
#include "constraint/grammar/expression.h"

namespace fathom::constraint {

bool TextCursor::Take(std::string_view text) {
  if (!Rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

char32_t TextCursor::TakeCodePoint() {
  const std::string_view rest = Rest();
  const std::size_t n = FirstUtf8Sequence(rest).n_bytes;
  const auto lead = static_cast<std::uint8_t>(rest[0]);
  char32_t code_point = n == 1 ? lead : lead & (0x7Fu >> n);
  for (std::size_t i = 1; i < n; ++i) {
    code_point = code_point << 6 | (static_cast<std::uint8_t>(rest[i]) & 0x3Fu);
  }
  at_ += n;
  return code_point;
}

std::optional<std::uint32_t> TextCursor::TakeNumber() {
  const std::size_t begin = at_;
  std::uint64_t number = 0;
  for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
    number = std::min<std::uint64_t>(10 * number + static_cast<std::uint64_t>(Peek() - '0'),
                                     kNoMaximum - 1);
  }
  if (at_ == begin) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

}  // namespace fathom::constraint
