// Compares ASCII letters without case: URL schemes, host names and the names of header fields.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace fathom {

constexpr char LowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = LowerCase(c);
  return lower;
}

inline bool EqualsWithoutCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerCase(x) == LowerCase(y); });
}

// Removes `prefix` from the front of the text. Returns false, and changes nothing, if the text does
// not begin with it.
inline bool TakePrefixWithoutCase(std::string_view& text, std::string_view prefix) {
  if (!EqualsWithoutCase(text.substr(0, prefix.size()), prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace fathom
