// LineEditor: reads one message at a time from the keyboard, with editing and a history.
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

// Edits at the terminal of standard input and output (arrows, Ctrl-R). Enter ends a message. With
// Alt, or after a backslash, which is removed, Enter begins another line. A pasted text is one
// piece, however many lines it has. One thread; `interrupt` must outlive this object.
class LineEditor {
 public:
  // `history`: the file with the messages of earlier programs, to which this program adds its own;
  // only its user may read it. Empty: none. Errors in the file are ignored. Returns nullptr if the
  // terminal does not support editing.
  static std::unique_ptr<LineEditor> Create(Interrupt& interrupt,
                                            const std::filesystem::path& history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Reads the next message, without the end of its last line, into `text`.
  LineEvent Read(std::string_view prompt, std::string& text);

 private:
  struct Impl;
  explicit LineEditor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::cli
