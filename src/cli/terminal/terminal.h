// Reads the user's lines, and shows answers on a terminal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/terminal/interrupt.h"

namespace fathom::cli {

// Escape sequences; empty where the output is no terminal or the user wants none.
struct TextStyle {
  std::string_view dim;     // from here on
  std::string_view normal;  // back
};
// wanted: false if the environment asks for plain text.
TextStyle StyleFor(int descriptor, bool wanted);

enum class LineEvent {
  kLine,
  kInterrupted,  // Ctrl-C instead of a line
  kEnd,          // no more input
};

// Reads lines from standard input. On a terminal with line editing and a history (arrows, Ctrl-R)
// that lives as long as the program; otherwise as they are, without showing a prompt. One thread;
// `interrupt` must outlive it.
class TerminalReader {
 public:
  explicit TerminalReader(Interrupt& interrupt);
  ~TerminalReader();
  TerminalReader(const TerminalReader&) = delete;
  TerminalReader& operator=(const TerminalReader&) = delete;

  bool on_terminal() const { return editor_ != nullptr; }

  // The next line without its end, in `line`. Errors: standard input cannot be read.
  Result<LineEvent> Read(std::string_view prompt, std::string& line);

 private:
  Result<LineEvent> ReadPlain(std::string& line);

  class Editor;
  Interrupt& interrupt_;
  std::unique_ptr<Editor> editor_;  // null where standard input is no terminal
  std::string pending_;             // read; returned up to begin_
  std::size_t begin_ = 0;
};

}  // namespace fathom::cli
