// Finds bytes around JSON that nlohmann's parser ignores and that the readers of checkpoints in
// Python and Rust refuse.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace fathom::checkpoint {

// Returns the place of a byte order mark at the beginning, or of the first zero byte, where that
// parser ends; counted from 1.
inline std::optional<std::size_t> FindForeignByte(std::string_view json) {
  if (json.starts_with("\xEF\xBB\xBF")) return 1;
  const std::size_t zero = json.find('\0');
  return zero == std::string_view::npos ? std::nullopt : std::optional(zero + 1);
}

}  // namespace fathom::checkpoint
