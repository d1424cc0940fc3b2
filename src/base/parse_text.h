// Parses numbers and fixed words in a text, independently of the locale.
#pragma once

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
