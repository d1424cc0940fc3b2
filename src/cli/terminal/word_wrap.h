// WordWrap: breaks a growing text between words, where a terminal would break inside them.
#pragma once

#include <string>
#include <string_view>

namespace fathom::cli {

// Returns the columns of the terminal of a file descriptor; 0: not a terminal, or unknown.
int TerminalColumns(int descriptor);

// One text; one thread. The C library's locale gives the widths of characters.
class WordWrap {
 public:
  // columns: 0: nothing is broken or held back.
  explicit WordWrap(int columns) : columns_(columns) {}

  // Returns what can be shown after these characters. Holds a word back until its end.
  std::string Add(std::string_view text);
  // Returns what was held back.
  std::string Flush();
  // Returns true if the text so far ends inside a line.
  bool in_line() const { return column_ > 0 || n_blanks_ > 0 || !word_.empty(); }

 private:
  void AddCharacter(std::string_view character, std::string& shown);
  void EndWord(std::string& shown);

  const int columns_;
  int column_ = 0;
  int n_blanks_ = 0;  // blanks between the shown text and the word
  std::string word_;
  int width_ = 0;  // width of the word
};

}  // namespace fathom::cli
