// Amounts of memory as text, in units of 10^9 bytes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fathom {

inline double Gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

// "16.1 MB", for sizes that are small beside a machine's memory.
inline std::string InMegabytes(std::int64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  return fmt::format("{:.{}f} MB", megabytes, megabytes < 1 ? 3 : 1);
}

// Returns "3.500 GB dense weights, 0.170 GB draft head": those parts that have any bytes.
inline std::string DescribeParts(std::span<const std::pair<std::int64_t, std::string_view>> parts) {
  std::string text;
  for (const auto& [bytes, name] : parts) {
    if (bytes == 0) continue;
    text += fmt::format("{}{:.3f} GB {}", text.empty() ? "" : ", ", Gigabytes(bytes), name);
  }
  return text;
}

}  // namespace fathom
