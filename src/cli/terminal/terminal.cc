#include "cli/terminal/terminal.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace fathom::cli {
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
