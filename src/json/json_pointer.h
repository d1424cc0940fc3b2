// Steps of JSON pointers (RFC 6901): ~0 stands for ~, and ~1 for /.
#pragma once

#include <string>
#include <string_view>

namespace fathom::json {

inline std::string EscapedPointerStep(std::string_view key) {
  std::string step;
  for (const char c : key) {
    if (c == '~' || c == '/') {
      step += c == '~' ? "~0" : "~1";
    } else {
      step += c;
    }
  }
  return step;
}

// A ~ that begins no escape stands for itself.
inline std::string UnescapedPointerStep(std::string_view step) {
  std::string key;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const std::string_view rest = step.substr(i);
    if (rest.starts_with("~0") || rest.starts_with("~1")) {
      key += rest[1] == '0' ? '~' : '/';
      ++i;
    } else {
      key += rest[0];
    }
  }
  return key;
}

}  // namespace fathom::json
