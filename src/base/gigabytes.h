// Formats amounts of memory in units of 10^9 bytes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fathom {

inline double Gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

// Returns "16.1 MB", rounded down, or "0.065 MB", for sizes that are small compared with a
// machine's memory.
inline std::string InMegabytes(std::int64_t bytes) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const bool is_small = bytes < kMegabyte;
  const std::int64_t unit = is_small ? kMegabyte / 1000 : kMegabyte / 10;
  return fmt::format("{:.{}f} MB", static_cast<double>(bytes / unit * unit) / 1e6,
                     is_small ? 3 : 1);
}

// Formats likewise, rounded up, for the least amount that is enough.
inline std::string EnoughMegabytes(std::int64_t bytes) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const std::int64_t unit = bytes < kMegabyte ? kMegabyte / 1000 : kMegabyte / 10;
  return InMegabytes((bytes + unit - 1) / unit * unit);
}

// Returns "3.500 GB dense weights, 0.170 GB draft head": all parts that have any bytes.
inline std::string DescribeParts(std::span<const std::pair<std::int64_t, std::string_view>> parts) {
  std::string text;
  for (const auto& [bytes, name] : parts) {
    if (bytes == 0) continue;
    text += fmt::format("{}{:.3f} GB {}", text.empty() ? "" : ", ", Gigabytes(bytes), name);
  }
  return text;
}

}  // namespace fathom
