#include "cli/terminal/line_editor.h"

#include <histedit.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
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

// Holds libedit, which reads through us: it would retry a read that Ctrl-C interrupts.
struct LineEditor::Impl {
  explicit Impl(Interrupt& the_interrupt) : interrupt(the_interrupt) {}
  ~Impl() {
    if (history != nullptr) ::history_end(history);
    if (edit != nullptr) ::el_end(edit);
  }

  bool Start();
  void Bind(const wchar_t* keys, const wchar_t* name, unsigned char (*function)(EditLine*, wint_t));
  void LoadHistory(const fs::path& file);
  void Remember(const std::string& text);
  void FollowSize();
  // Returns 1: one character; 0: the end; -1: none is available.
  int ReadRaw(wchar_t* character);

  static Impl& Self(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }
  static char* Prompt(EditLine* edit) { return Self(edit).prompt.data(); }
  static int ReadCharacter(EditLine* edit, wchar_t* character);
  static unsigned char Paste(EditLine* edit, wint_t key);
  static unsigned char BeginLine(EditLine* edit, wint_t key);
  static unsigned char ContinueLine(EditLine* edit, wint_t key);

  Interrupt& interrupt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  fs::path history_file;  // empty: none
  std::string prompt;
  bool interrupted = false;
  wchar_t last = 0;   // the previous character
  winsize size = {};  // the terminal's size, as the editor knows it
};

bool LineEditor::Impl::Start() {
  // All our text is UTF-8, whatever the environment says; libedit asks the C library.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  edit = ::el_init("fathom", stdin, stdout, stderr);
  history = ::history_init();
  if (edit == nullptr || history == nullptr) return false;
  HistEvent event;
  ::history(history, &event, H_SETSIZE, kHistoryMessages);
  ::history(history, &event, H_SETUNIQUE, 1);
  ::el_set(edit, EL_CLIENTDATA, this);
  ::el_set(edit, EL_PROMPT, &Impl::Prompt);
  ::el_set(edit, EL_EDITOR, "emacs");
  ::el_set(edit, EL_HIST, &::history, history);
  // Otherwise the end of a line in a text from Windows, "\r\n", would arrive as two newlines.
  ::el_set(edit, EL_SETTY, "-d", "-icrnl", "-inlcr", nullptr);
  ::el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  Bind(L"\\e[200~", L"fathom-paste", &Impl::Paste);
  Bind(L"\\e^M", L"fathom-begin-line", &Impl::BeginLine);
  Bind(L"\\e^J", L"fathom-begin-line", &Impl::BeginLine);
  Bind(L"^_", L"fathom-continue-line", &Impl::ContinueLine);
  ::el_wset(edit, EL_GETCFN, &Impl::ReadCharacter);
  return true;
}

void LineEditor::Impl::Bind(const wchar_t* keys, const wchar_t* name,
                            unsigned char (*function)(EditLine*, wint_t)) {
  ::el_wset(edit, EL_ADDFN, name, L"", function);
  ::el_wset(edit, EL_BIND, keys, name, nullptr);
}

// Ignores files that are not a history or not regular files: the library would wait for a pipe.
void LineEditor::Impl::LoadHistory(const fs::path& file) {
  if (file.empty()) return;
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const Result<Descriptor> found = OpenToRead(file, FileKind::kRegular);
  bool is_ours = !found && found.error().code == ErrorCode::kNotFound;
  if (found) {
    HistEvent event;
    const std::string opened = fmt::format("/proc/self/fd/{}", found->get());
    is_ours = ::history(history, &event, H_LOAD, opened.c_str()) >= 0 ||
              fs::file_size(file, ignored) == 0;
  }
  if (is_ours) history_file = file;
}

void LineEditor::Impl::Remember(const std::string& text) {
  HistEvent event;
  ::history(history, &event, H_ENTER, text.c_str());
  if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
}

void LineEditor::Impl::FollowSize() {
  winsize now = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 &&
      (now.ws_col != size.ws_col || now.ws_row != size.ws_row)) {
    size = now;
    ::el_resize(edit);
  }
}

int LineEditor::Impl::ReadRaw(wchar_t* character) {
  std::mbstate_t state = {};
  for (;;) {
    if (!interrupt.WaitFor(STDIN_FILENO)) {
      interrupted = interrupt.Take();
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

int LineEditor::Impl::ReadCharacter(EditLine* edit, wchar_t* character) {
  Impl& self = Self(edit);
  const int n_read = self.ReadRaw(character);
  if (n_read != 1) return n_read;
  self.FollowSize();
  const bool with_alt = std::exchange(self.last, *character) == L'\x1b';
  if (!with_alt && (*character == L'\r' || *character == L'\n')) {
    const LineInfoW* line = ::el_wline(edit);
    const bool at_end = line->cursor == line->lastchar && line->cursor > line->buffer;
    if (at_end && line->cursor[-1] == L'\\') *character = kContinue;
  }
  return n_read;
}

unsigned char LineEditor::Impl::Paste(EditLine* edit, wint_t /*key*/) {
  Impl& self = Self(edit);
  std::wstring pasted;
  while (!pasted.ends_with(kPasteEnd)) {
    wchar_t character = 0;
    if (self.ReadRaw(&character) != 1) return CC_EOF;
    pasted += character;
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  return ::el_winsertstr(edit, Cleaned(pasted).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::Impl::BeginLine(EditLine* edit, wint_t /*key*/) {
  return ::el_winsertstr(edit, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::Impl::ContinueLine(EditLine* edit, wint_t key) {
  const LineInfoW* line = ::el_wline(edit);
  if (line->cursor > line->buffer && line->cursor[-1] == L'\\') ::el_deletestr(edit, 1);
  return BeginLine(edit, key);
}

LineEditor::LineEditor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LineEditor::~LineEditor() = default;

std::unique_ptr<LineEditor> LineEditor::Create(Interrupt& interrupt, const fs::path& history) {
  auto impl = std::make_unique<Impl>(interrupt);
  if (!impl->Start()) return nullptr;
  impl->LoadHistory(history);
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(impl)));
}

LineEvent LineEditor::Read(std::string_view prompt, std::string& text) {
  Impl& m = *impl_;
  m.prompt = prompt;
  m.interrupted = false;
  m.FollowSize();
  int n_bytes = 0;
  // Must precede the terminal's marks of pastes, or the kernel would still edit the beginning of
  // one.
  ::el_set(m.edit, EL_PREP_TERM, 1);
  static_cast<void>(Print(kPasteOn));
  const char* read = ::el_gets(m.edit, &n_bytes);
  static_cast<void>(Print(kPasteOff));
  if (m.interrupted) return LineEvent::kInterrupted;
  if (read == nullptr || n_bytes <= 0) return LineEvent::kEnd;
  text.assign(read, static_cast<std::size_t>(n_bytes));
  if (text.back() == '\n') text.pop_back();
  if (!text.empty()) m.Remember(text);
  return LineEvent::kLine;
}

}  // namespace fathom::cli
