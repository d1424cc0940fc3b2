// Defines the order of chosen compressed rows (docs/numerics.md 7).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>

namespace fathom::kernels {

// Rows [first, end) of a sequence's compressed rows, or of the part that a cache holds.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  std::int64_t n_rows() const { return end - first; }
};

// A row and its score as one number; the smaller number is chosen first: the higher score, zeros of
// both signs being equal, and for equal scores the lower row. Lists of different rows can thus be
// merged without the scores.
using ScoredRow = std::uint64_t;
inline constexpr ScoredRow kNoScoredRow = ~ScoredRow{0};  // after all rows

// Converts a score, which must not be NaN, and its row.
constexpr ScoredRow ToScoredRow(float score, std::int64_t row) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  const std::uint32_t descending = (bits >> 31) != 0 ? bits : 0x7FFFFFFFu - bits;
  return ScoredRow{descending} << 32 | static_cast<std::uint32_t>(row);
}
constexpr std::int32_t ToRow(ScoredRow scored) {
  return static_cast<std::int32_t>(scored & 0xFFFFFFFFu);
}

// Chooses all visible rows when they fit: ascending, then -1.
inline void ChooseAll(std::int64_t visible, std::span<std::int32_t> rows) {
  const auto end = rows.begin() + visible;
  std::iota(rows.begin(), end, 0);
  std::fill(end, rows.end(), -1);
}

}  // namespace fathom::kernels
