// Reads the user's lines, and shows answers on a terminal.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/line_editor.h"

namespace fathom::cli {

// Escape sequences; empty if the output is not a terminal or the user wants none.
struct TextStyle {
  std::string_view dim;     // begins dim text
  std::string_view normal;  // ends dim text
};
// wanted: false if the environment asks for plain text.
TextStyle StyleFor(int descriptor, bool wanted);

// Reads messages from standard input: on a terminal through a LineEditor, otherwise line by line,
// without showing a prompt. One thread; `interrupt` must outlive it.
class TerminalReader {
 public:
  // `history`: as in LineEditor::Create.
  TerminalReader(Interrupt& interrupt, const std::filesystem::path& history);
  ~TerminalReader();
  TerminalReader(const TerminalReader&) = delete;
  TerminalReader& operator=(const TerminalReader&) = delete;

  bool on_terminal() const { return editor_ != nullptr; }

  // Reads the next message without its end into `line`. Errors: standard input cannot be read.
  Result<LineEvent> Read(std::string_view prompt, std::string& line);

 private:
  Result<LineEvent> ReadPlain(std::string& line);

  Interrupt& interrupt_;
  std::unique_ptr<LineEditor> editor_;  // null if standard input is not a terminal
  std::string pending_;                 // text that was read; already returned up to begin_
  std::size_t begin_ = 0;
};

}  // namespace fathom::cli
