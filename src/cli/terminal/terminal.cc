#include "cli/terminal/terminal.h"

#include <histedit.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>

namespace fathom::cli {
namespace {

constexpr int kHistoryLines = 500;

}  // namespace

TextStyle StyleFor(int descriptor, bool wanted) {
  if (!wanted || ::isatty(descriptor) != 1) return {};
  return {.dim = "\x1b[2m", .normal = "\x1b[22m"};
}

// libedit, told to read through us: it would retry a read that Ctrl-C interrupts.
class TerminalReader::Editor {
 public:
  explicit Editor(Interrupt& interrupt) : interrupt_(interrupt) {
    // All our text is UTF-8, whatever the environment says; libedit asks the C library.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = ::el_init("fathom", stdin, stdout, stderr);
    history_ = ::history_init();
    if (edit_ == nullptr || history_ == nullptr) return;
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kHistoryLines);
    ::history(history_, &event, H_SETUNIQUE, 1);
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_PROMPT, &Editor::Prompt);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, &::history, history_);
    ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_wset(edit_, EL_GETCFN, &Editor::ReadCharacter);
  }

  ~Editor() {
    if (history_ != nullptr) {
      ::history_end(history_);
    }
    if (edit_ != nullptr) {
      ::el_end(edit_);
    }
  }

  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  bool usable() const { return edit_ != nullptr && history_ != nullptr; }

  LineEvent Read(std::string_view prompt, std::string& line) {
    prompt_ = prompt;
    interrupted_ = false;
    int n_bytes = 0;
    const char* text = ::el_gets(edit_, &n_bytes);
    if (interrupted_) return LineEvent::kInterrupted;
    if (text == nullptr || n_bytes <= 0) return LineEvent::kEnd;
    line.assign(text, static_cast<std::size_t>(n_bytes));
    if (line.back() == '\n') {
      line.pop_back();
    }
    if (!line.empty()) {
      HistEvent event;
      ::history(history_, &event, H_ENTER, line.c_str());
    }
    return LineEvent::kLine;
  }

 private:
  static Editor& Self(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }

  static char* Prompt(EditLine* edit) { return Self(edit).prompt_.data(); }

  // One character of standard input: 1, 0 at its end, -1 if there is none to be had.
  static int ReadCharacter(EditLine* edit, wchar_t* character) {
    Editor& self = Self(edit);
    std::mbstate_t state = {};
    for (;;) {
      if (!self.interrupt_.WaitFor(STDIN_FILENO)) {
        self.interrupted_ = self.interrupt_.Take();
        return -1;
      }
      char byte = 0;
      const ssize_t n_bytes = ::read(STDIN_FILENO, &byte, 1);
      if (n_bytes <= 0) return n_bytes == 0 ? 0 : -1;
      const std::size_t n_used = std::mbrtowc(character, &byte, 1, &state);
      if (n_used == static_cast<std::size_t>(-1)) {
        state = {};  // no character begins like this: skip it
      } else if (n_used != static_cast<std::size_t>(-2)) {
        return 1;
      }
    }
  }

  Interrupt& interrupt_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
  bool interrupted_ = false;
};

TerminalReader::TerminalReader(Interrupt& interrupt) : interrupt_(interrupt) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    editor_ = std::make_unique<Editor>(interrupt);
    if (!editor_->usable()) {
      editor_.reset();
    }
  }
}

TerminalReader::~TerminalReader() = default;

Result<LineEvent> TerminalReader::Read(std::string_view prompt, std::string& line) {
  return editor_ != nullptr ? editor_->Read(prompt, line) : ReadPlain(line);
}

Result<LineEvent> TerminalReader::ReadPlain(std::string& line) {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t end = pending_.find('\n', searched);
    if (end != std::string::npos) {
      line.assign(pending_, begin_, end - begin_);
      begin_ = end + 1;
      return LineEvent::kLine;
    }
    pending_.erase(0, begin_);
    begin_ = 0;
    searched = pending_.size();
    if (!interrupt_.WaitFor(STDIN_FILENO)) {
      static_cast<void>(interrupt_.Take());
      return LineEvent::kInterrupted;
    }
    std::array<char, 4096> piece;
    const ssize_t n_bytes = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n_bytes < 0 && errno != EINTR) {
      return MakeError(ErrorCode::kIo, "standard input: cannot read: {}", std::strerror(errno));
    }
    if (n_bytes == 0) {
      if (pending_.empty()) return LineEvent::kEnd;
      line = std::move(pending_);  // a last line without an end
      pending_.clear();
      return LineEvent::kLine;
    }
    if (n_bytes > 0) {
      pending_.append(piece.data(), static_cast<std::size_t>(n_bytes));
    }
  }
}

}  // namespace fathom::cli
