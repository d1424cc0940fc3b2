// Products of several or many rows of activations by weights that are multiplied by their scales as
// they are expanded (scaled_formats.h): a block of kGroup weight rows stays in registers while all
// rows of activations pass over it.
#pragma once

#include "kernels/cpu/vector/product_rows.h"
#include "kernels/cpu/vector/scaled_formats.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// True if the format has a scaled format, and the scales of `blocks` blocks of the weights, at
// least one, are in its range.
template <BlockFormat Format>
bool ScalesFit(const WeightRow (&weights)[kGroup], int64_t blocks) {
  bool fit = blocks > 0 && HasScaledFormat<Format>;
  if constexpr (HasScaledFormat<Format>) {
    for (const WeightRow& row : weights) {
      const int64_t count = blocks * (Format::kRowsShareScales ? 1 : Format::kScaleBytes);
      fit = BytesWithin(row.scales, count, kSmallestScale, kLargestScale) && fit;
    }
  }
  return fit;
}

// Adds a block to the sums of all rows, or with kStarts sets them, and prefetches the next group's
// block.
template <BlockFormat Format, bool kStarts>
[[gnu::always_inline]] inline void AddScaledBlock(const WeightRow (&weights)[kGroup],
                                                  int64_t row_bytes, int64_t block,
                                                  const ProductRow* rows, int count_rows,
                                                  F32 (*sums)[kGroup][Format::kSums]) {
  typename Format::Block expanded[kGroup][1];
  for (int c = 0; c < kGroup; ++c) {
    const uint8_t* next = weights[c].bytes + kGroup * row_bytes + block * Format::kBlockBytes;
    for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
      __builtin_prefetch(next + line, 0, 2);
    }
    Format::Expand(weights[c], block, 0, expanded[c]);
  }
  for (int m = 0; m < count_rows; ++m) {
    const float* const x[1] = {rows[m].x + block * kBlockFloats<Format>};
    Format::template AddScaled<kStarts>([&](int j, int c) { return expanded[c][0].w[j]; }, x,
                                        sums[m]);
  }
}

// Sets the sums of all rows to the sums of blocks [first, end), at least one.
template <BlockFormat Format>
void SumScaledBlocks(const WeightRow (&weights)[kGroup], int64_t row_bytes, int64_t first,
                     int64_t end, const ProductRow* rows, int count_rows,
                     F32 (*sums)[kGroup][Format::kSums]) {
  static_assert(Format::kSlices == 1);
  AddScaledBlock<Format, /*kStarts=*/true>(weights, row_bytes, first, rows, count_rows, sums);
  for (int64_t block = first + 1; block < end; ++block) {
    AddScaledBlock<Format, /*kStarts=*/false>(weights, row_bytes, block, rows, count_rows, sums);
  }
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
