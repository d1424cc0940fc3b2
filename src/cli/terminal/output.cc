#include "cli/terminal/output.h"

#include <unistd.h>

namespace fathom::cli {

Status Print(std::string_view text) {
  return WriteDescriptor(STDOUT_FILENO, "standard output", text);
}

void PrintError(std::string_view text) {
  static_cast<void>(WriteDescriptor(STDERR_FILENO, "standard error", text));
}

Result<std::string> ReadInput(const std::string& path, std::size_t most_bytes) {
  if (path == "-") return ReadDescriptor(STDIN_FILENO, "standard input", most_bytes);
  Result<std::string> text = ReadFile(path, most_bytes, FileKind::kRegularOrPipe);
  if (text) text->erase(0, text->size() - WithoutByteOrderMark(*text).size());
  return text;
}

}  // namespace fathom::cli
