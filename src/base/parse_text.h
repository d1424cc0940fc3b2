// Parses numbers and fixed words in a text, independently of the locale.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace fathom {

// Removes `prefix` from the front of the text. Returns false, and changes nothing, if the text does
// not begin with it.
inline bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Returns the text without blanks at both ends.
inline std::string_view WithoutBlankEnds(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Returns the value of a hexadecimal digit; -1 for any other character.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Removes a decimal number from the front of the text. Returns nullopt, and changes nothing, if
// there is none or T cannot represent it.
template <class T>
std::optional<T> TakeNumber(std::string_view& text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Returns the whole text as a number; nullopt if it is not one, or T cannot represent it.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  const std::optional<T> value = TakeNumber<T>(text);
  return text.empty() ? value : std::nullopt;
}

}  // namespace fathom
