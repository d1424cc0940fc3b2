#include "cli/terminal/terminal.h"

#include <histedit.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "cli/terminal/output.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kHistoryMessages = 500;
// A terminal in this mode puts pasted text between two marks.
constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
// The character that represents Enter after a backslash; no key sends it.
constexpr wchar_t kContinue = L'\x1f';

// The lines of a paste end as the terminal sends Enter; other control characters would be commands.
std::wstring Cleaned(std::wstring_view pasted) {
  std::wstring text;
  for (std::size_t i = 0; i < pasted.size(); ++i) {
    const wchar_t c = pasted[i];
    if (c == L'\r' || c == L'\n') {
      text += L'\n';
      if (c == L'\r' && pasted.substr(i + 1).starts_with(L'\n')) ++i;
    } else if (c >= L' ' || c == L'\t') {
      text += c;
    }
  }
  return text;
}

}  // namespace

LineEditor::~LineEditor() {
  if (history_ != nullptr) ::history_end(history_);
  if (edit_ != nullptr) ::el_end(edit_);
}

LineEditor& LineEditor::Self(EditLine* edit) {
  void* self = nullptr;
  ::el_get(edit, EL_CLIENTDATA, &self);
  return *static_cast<LineEditor*>(self);
}

char* LineEditor::Prompt(EditLine* edit) { return Self(edit).prompt_.data(); }

bool LineEditor::Start() {
  // All our text is UTF-8, whatever the environment says; libedit asks the C library.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  edit_ = ::el_init("fathom", stdin, stdout, stderr);
  history_ = ::history_init();
  if (edit_ == nullptr || history_ == nullptr) return false;
  HistEvent event;
  ::history(history_, &event, H_SETSIZE, kHistoryMessages);
  ::history(history_, &event, H_SETUNIQUE, 1);
  ::el_set(edit_, EL_CLIENTDATA, this);
  ::el_set(edit_, EL_PROMPT, &LineEditor::Prompt);
  ::el_set(edit_, EL_EDITOR, "emacs");
  ::el_set(edit_, EL_HIST, &::history, history_);
  // Otherwise the end of a line in a text from Windows, "\r\n", would arrive as two newlines.
  ::el_set(edit_, EL_SETTY, "-d", "-icrnl", "-inlcr", nullptr);
  ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  Bind(L"\\e[200~", L"fathom-paste", &LineEditor::Paste);
  Bind(L"\\e^M", L"fathom-begin-line", &LineEditor::BeginLine);
  Bind(L"\\e^J", L"fathom-begin-line", &LineEditor::BeginLine);
  Bind(L"^_", L"fathom-continue-line", &LineEditor::ContinueLine);
  ::el_wset(edit_, EL_GETCFN, &LineEditor::ReadCharacter);
  return true;
}

void LineEditor::Bind(const wchar_t* keys, const wchar_t* name,
                      unsigned char (*function)(EditLine*, wint_t)) {
  ::el_wset(edit_, EL_ADDFN, name, L"", function);
  ::el_wset(edit_, EL_BIND, keys, name, nullptr);
}

// Ignores files that are not a history or not regular files: the library would wait for a pipe.
void LineEditor::LoadHistory(const fs::path& file) {
  if (file.empty()) return;
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const Result<Descriptor> found = OpenToRead(file, FileKind::kRegular);
  bool is_ours = !found && found.error().code == ErrorCode::kNotFound;
  if (found) {
    HistEvent event;
    const std::string opened = fmt::format("/proc/self/fd/{}", found->get());
    is_ours = ::history(history_, &event, H_LOAD, opened.c_str()) >= 0 ||
              fs::file_size(file, ignored) == 0;
  }
  if (is_ours) history_file_ = file;
}

void LineEditor::Remember(const std::string& text) {
  HistEvent event;
  ::history(history_, &event, H_ENTER, text.c_str());
  if (!history_file_.empty()) ::history(history_, &event, H_SAVE, history_file_.c_str());
}

void LineEditor::FollowSize() {
  winsize now = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 &&
      (now.ws_col != size_.ws_col || now.ws_row != size_.ws_row)) {
    size_ = now;
    ::el_resize(edit_);
  }
}

int LineEditor::ReadRaw(wchar_t* character) {
  std::mbstate_t state = {};
  for (;;) {
    if (!interrupt_.WaitFor(STDIN_FILENO)) {
      interrupted_ = interrupt_.Take();
      return -1;
    }
    char byte = 0;
    const ssize_t n_bytes = ::read(STDIN_FILENO, &byte, 1);
    if (n_bytes <= 0) return n_bytes == 0 ? 0 : -1;
    const std::size_t n_used = std::mbrtowc(character, &byte, 1, &state);
    if (n_used == static_cast<std::size_t>(-1)) {
      state = {};  // no character begins with this byte: skip it
    } else if (n_used != static_cast<std::size_t>(-2)) {
      return 1;
    }
  }
}

int LineEditor::ReadCharacter(EditLine* edit, wchar_t* character) {
  LineEditor& self = Self(edit);
  const int n_read = self.ReadRaw(character);
  if (n_read != 1) return n_read;
  self.FollowSize();
  const bool with_alt = std::exchange(self.last_, *character) == L'\x1b';
  if (!with_alt && (*character == L'\r' || *character == L'\n')) {
    const LineInfoW* line = ::el_wline(edit);
    const bool at_end = line->cursor == line->lastchar && line->cursor > line->buffer;
    if (at_end && line->cursor[-1] == L'\\') *character = kContinue;
  }
  return n_read;
}

unsigned char LineEditor::Paste(EditLine* edit, wint_t /*key*/) {
  LineEditor& self = Self(edit);
  std::wstring pasted;
  while (!pasted.ends_with(kPasteEnd)) {
    wchar_t character = 0;
    if (self.ReadRaw(&character) != 1) return CC_EOF;
    pasted += character;
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  return ::el_winsertstr(edit, Cleaned(pasted).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::BeginLine(EditLine* edit, wint_t /*key*/) {
  return ::el_winsertstr(edit, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::ContinueLine(EditLine* edit, wint_t key) {
  const LineInfoW* line = ::el_wline(edit);
  if (line->cursor > line->buffer && line->cursor[-1] == L'\\') ::el_deletestr(edit, 1);
  return BeginLine(edit, key);
}

std::unique_ptr<LineEditor> LineEditor::Create(Interrupt& interrupt, const fs::path& history) {
  std::unique_ptr<LineEditor> editor(new LineEditor(interrupt));
  if (!editor->Start()) return nullptr;
  editor->LoadHistory(history);
  return editor;
}

LineEvent LineEditor::Read(std::string_view prompt, std::string& text) {
  prompt_ = prompt;
  interrupted_ = false;
  FollowSize();
  int n_bytes = 0;
  // Must precede the terminal's marks of pastes, or the kernel would still edit the beginning of
  // one.
  ::el_set(edit_, EL_PREP_TERM, 1);
  static_cast<void>(Print(kPasteOn));
  const char* read = ::el_gets(edit_, &n_bytes);
  static_cast<void>(Print(kPasteOff));
  if (interrupted_) return LineEvent::kInterrupted;
  if (read == nullptr || n_bytes <= 0) return LineEvent::kEnd;
  text.assign(read, static_cast<std::size_t>(n_bytes));
  if (text.back() == '\n') text.pop_back();
  if (!text.empty()) Remember(text);
  return LineEvent::kLine;
}

TextStyle StyleFor(int descriptor, bool wanted) {
  if (!wanted || ::isatty(descriptor) != 1) return {};
  return {.dim = "\x1b[2m", .normal = "\x1b[22m"};
}

TerminalReader::TerminalReader(Interrupt& interrupt, const std::filesystem::path& history)
    : interrupt_(interrupt) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    editor_ = LineEditor::Create(interrupt, history);
  }
}

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
      line = std::move(pending_);  // a last line without a newline
      pending_.clear();
      return LineEvent::kLine;
    }
    if (n_bytes > 0) {
      pending_.append(piece.data(), static_cast<std::size_t>(n_bytes));
    }
  }
}

}  // namespace fathom::cli
