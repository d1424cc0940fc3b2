#include "cli/terminal/word_wrap.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cwchar>

#include "base/utf8.h"

namespace fathom::cli {
namespace {

constexpr int kTabColumns = 8;

int CharacterColumns(std::string_view character) {
  std::mbstate_t state = {};
  wchar_t wide = 0;
  const std::size_t n_used = std::mbrtowc(&wide, character.data(), character.size(), &state);
  return n_used == character.size() ? std::max(::wcwidth(wide), 0) : 1;
}

}  // namespace

int TerminalColumns(int descriptor) {
  winsize size = {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string WordWrap::Add(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t n_bytes = FirstUtf8Sequence(text).n_bytes;
    AddCharacter(text.substr(0, n_bytes), shown);
    text.remove_prefix(n_bytes);
  }
  return columns_ == 0 ? shown + Flush() : shown;
}

std::string WordWrap::Flush() {
  std::string shown;
  EndWord(shown);
  shown.append(static_cast<std::size_t>(n_blanks_), ' ');
  column_ += n_blanks_;
  n_blanks_ = 0;
  return shown;
}

void WordWrap::AddCharacter(std::string_view character, std::string& shown) {
  if (character == "\n" || character == "\t") {
    shown += Flush();
    shown += character;
    column_ = character == "\n" ? 0 : (column_ / kTabColumns + 1) * kTabColumns;
  } else if (character == " ") {
    EndWord(shown);
    ++n_blanks_;
  } else {
    const int width = CharacterColumns(character);
    word_ += character;
    width_ += width;
    if (width > 1) EndWord(shown);  // an ideograph: lines may break between any two
  }
}

void WordWrap::EndWord(std::string& shown) {
  if (word_.empty()) return;
  if (columns_ > 0 && column_ > 0 && column_ + n_blanks_ + width_ > columns_) {
    shown += '\n';
    column_ = n_blanks_ = 0;
  }
  shown.append(static_cast<std::size_t>(n_blanks_), ' ');
  shown += word_;
  column_ += n_blanks_ + width_;
  if (columns_ > 0 && column_ > columns_) column_ %= columns_;  // a word longer than a line
  n_blanks_ = width_ = 0;
  word_.clear();
}

}  // namespace fathom::cli
