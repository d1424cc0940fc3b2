// Reads the user's lines, and shows answers on a terminal.
#pragma once

#include <sys/ioctl.h>

#include <cwchar>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/terminal/interrupt.h"

struct editline;  // of libedit
struct history;

namespace fathom::cli {

// Escape sequences; empty if the output is not a terminal or the user wants none.
struct TextStyle {
  std::string_view dim;     // begins dim text
  std::string_view normal;  // ends dim text
};
// wanted: false if the environment asks for plain text.
TextStyle StyleFor(int descriptor, bool wanted);

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
  // libedit reads through this object: it would retry a read that Ctrl-C interrupts.
  explicit LineEditor(Interrupt& interrupt) : interrupt_(interrupt) {}
  bool Start();
  void Bind(const wchar_t* keys, const wchar_t* name, unsigned char (*function)(editline*, wint_t));
  void LoadHistory(const std::filesystem::path& file);
  void Remember(const std::string& text);
  void FollowSize();
  // Returns 1: one character; 0: the end; -1: none is available.
  int ReadRaw(wchar_t* character);

  static LineEditor& Self(editline* edit);
  static char* Prompt(editline* edit);
  static int ReadCharacter(editline* edit, wchar_t* character);
  static unsigned char Paste(editline* edit, wint_t key);
  static unsigned char BeginLine(editline* edit, wint_t key);
  static unsigned char ContinueLine(editline* edit, wint_t key);

  Interrupt& interrupt_;
  editline* edit_ = nullptr;
  struct history* history_ = nullptr;
  std::filesystem::path history_file_;  // empty: none
  std::string prompt_;
  bool interrupted_ = false;
  wchar_t last_ = 0;   // the previous character
  winsize size_ = {};  // the terminal's size, as the editor knows it
};

// Reads messages from standard input: on a terminal through a LineEditor, otherwise line by line,
// without showing a prompt. One thread; `interrupt` must outlive it.
class TerminalReader {
 public:
  // `history`: as in LineEditor::Create.
  TerminalReader(Interrupt& interrupt, const std::filesystem::path& history);
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
