#include "cli/terminal/output.h"

#include <unistd.h>

namespace fathom::cli {

Status Print(std::string_view text) {
  return WriteDescriptor(STDOUT_FILENO, "standard output", text);
}

void PrintError(std::string_view text) {
  static_cast<void>(WriteDescriptor(STDERR_FILENO, "standard error", text));
}

Result<std::string> ReadInput(const std::string& path) {
  return path == "-" ? ReadDescriptor(STDIN_FILENO, "standard input") : ReadFile(path);
}

}  // namespace fathom::cli
