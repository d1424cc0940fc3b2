// LineReader: reads a text line by line.
#pragma once

#include <algorithm>
#include <string_view>

namespace fathom {

class LineReader {
 public:
  // The text must outlive the lines.
  explicit LineReader(std::string_view text) : rest_(text) {}

  // Reads the next line without its line feed, which the last line may lack. Returns false if no
  // line is left.
  bool Next(std::string_view* line) {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    *line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace fathom
