// LineEditor: one message at a time from the keyboard, with editing and a history.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cli/terminal/interrupt.h"

namespace fathom::cli {

enum class LineEvent {
  kLine,
  kInterrupted,  // Ctrl-C instead of a line
  kEnd,          // no more input
};

// Edits at the terminal of standard input and output (arrows, Ctrl-R). Enter ends a message; behind
// a backslash, which goes, and with Alt it begins another line. A pasted text is one piece, however
// many lines it has. One thread; `interrupt` must outlive it.
class LineEditor {
 public:
  // `history`: the file with the messages of earlier programs, and for those of this one; only its
  // user may read it. Empty: none. What is wrong with the file is ignored. nullptr: the terminal
  // cannot be edited on.
  static std::unique_ptr<LineEditor> Create(Interrupt& interrupt,
                                            const std::filesystem::path& history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next message, without the end of its last line, in `text`.
  LineEvent Read(std::string_view prompt, std::string& text);

 private:
  struct Impl;
  explicit LineEditor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::cli
