// CountCharacters: the length of a text as clients count it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace fathom {

// Returns the number of code points of a text in UTF-8.
inline std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

}  // namespace fathom
