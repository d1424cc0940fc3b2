// Products with many rows of activations, where the factors of blocks can be folded into the
// activations (Folds).
//
// 128 rows of weights have their scales in common: for these rows, some blocks of the activations
// at a time are copied in the order in which tiles read them, multiplied by the scales of both
// sides. Then a block's chain is added to its sum without a factor: an addition is faster than a
// fused multiply-add, which competes with the products. The sums of all 128 rows wait in the
// second-level cache, so that one expansion serves kPanelRows rows of activations however long they
// are.
#pragma once

#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_panel.h"
#include "kernels/cpu/vector/product_rows.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int kFoldedGroups = kBlock / kGroup;

template <BlockFormat Format>
const Folding& FindFolding(const cpu::Product& product) {
  return product.format == cpu::ProductFormat::kFp8 ? Format::kQuantized : Format::kUnquantized;
}

// The activations of kPanelBlocks blocks: per tile, block, slice and operand, for all rows.
template <BlockFormat Format>
struct FoldedRows {
  F32 x[kPanelRows * Format::kPanelBlocks * Format::kSlices * Format::kOperands];
};

// Copies blocks [first, first + count) of the rows. False if a factor is not in the range in which
// the copy gives the same sums.
template <BlockFormat Format>
bool FoldRows(const Folding& folding, const WeightRow& weights, int64_t first, int64_t count,
              const ProductRow* rows, int count_rows, FoldedRows<Format>& folded) {
  bool fits = true;
  F32* to = folded.x;
  ForTiles<kTileRows<Format>>(count_rows, [&](int m, auto height) {
    constexpr int kRows = height.kValue;
    for (int64_t i = first; i < first + count; ++i) {
      const float scale = Fp8Scale(weights, i);
      for (int r = 0; r < kRows; ++r) {
        const ProductRow& row = rows[m + r];
        const float factor = row.scales[i] * scale;
        fits = fits && factor >= folding.least && factor <= folding.most;
        const F32 multiplier = Set(factor / folding.weights);
        const float* x = row.x + i * kBlockFloats<Format>;
        for (int j = 0; j < Format::kSlices * Format::kOperands; ++j) {
          to[j * kRows + r] = Load(x + j * kLanes) * multiplier;
        }
      }
      to += kRows * Format::kSlices * Format::kOperands;
    }
  });
  return fits;
}

// Adds `count` blocks of the panel to the sums of kRows rows; with `starts` the sums begin at zero.
template <BlockFormat Format, int kRows>
[[gnu::noinline]] void AddFolded(const Panel<Format>& panel, int64_t count, const F32* x,
                                 bool starts, RowSums<Format>* sums) {
  static constexpr RowSums<Format> kZeros[kRows] = {};
  const RowSums<Format>* from = starts ? kZeros : sums;
  for (int64_t i = 0; i < count; ++i) {
    for (int slice = 0; slice < Format::kSlices; ++slice) {
      const auto* w = panel.At(i, slice);
      const float* operands[kRows];
      for (int m = 0; m < kRows; ++m) {
        operands[m] = reinterpret_cast<const float*>(x + m);
      }
      F32 chains[kRows][kGroup];
      AddChains<kRows * kLanes>([w](int j, int c) { return w[j * kGroup + c]; }, 0,
                                Format::kOperands, operands, /*start=*/true, chains);
      for (int m = 0; m < kRows; ++m) {
        for (int c = 0; c < kGroup; ++c) {
          sums[m][c][slice] = from[m][c][slice] + chains[m][c];
        }
      }
      x += Format::kOperands * kRows;
      ForgetMemory();
    }
    from = sums;
  }
}

template <BlockFormat Format>
void AddFoldedRows(const Panel<Format>& panel, int64_t count, const FoldedRows<Format>& folded,
                   int count_rows, bool starts, RowSums<Format>* sums) {
  const F32* x = folded.x;
  ForTiles<kTileRows<Format>>(count_rows, [&](int m, auto height) {
    AddFolded<Format, height.kValue>(panel, count, x, starts, sums + m);
    x += height.kValue * count * Format::kSlices * Format::kOperands;
  });
}

// Weight rows that share their scales, at most kBlock.
struct FoldedColumns {
  WeightRow weights[kFoldedGroups][kGroup];
  int groups;
};

// The products of rows of activations by weights that share their scales.
using SharedValues = float[kPanelRows][kBlock];

// Computes `values` of blocks [first, end) of k, at least one; `sums` is space for
// [groups][count_rows]. Sums begin and end while they are in the first-level cache.
template <BlockFormat Format>
void SumFolded(const cpu::Product& product, const FoldedColumns& columns, int64_t first,
               int64_t end, const ProductRow* rows, int count_rows, RowSums<Format>* sums,
               SharedValues& values) {
  const Folding& folding = FindFolding<Format>(product);
  FoldedRows<Format> folded;
  Panel<Format> panel;
  for (int64_t block = first; block < end; block += Format::kPanelBlocks) {
    const int64_t count = end - block < Format::kPanelBlocks ? end - block : Format::kPanelBlocks;
    const bool fits =
        FoldRows<Format>(folding, columns.weights[0][0], block, count, rows, count_rows, folded);
    for (int g = 0; g < columns.groups; ++g) {
      const F32 factor = Set(fits ? folding.weights : 1.0f);
      for (int64_t i = 0; i < count; ++i) {
        ExpandBlock<Format>(columns.weights[g], block + i, i, panel,
                            [factor](typename Format::Value w) { return w * factor; });
      }
      const bool is_last = g + 1 == columns.groups;
      PrefetchBlocks<Format>(columns.weights[is_last ? 0 : g + 1], product, 0,
                             is_last ? block + count : block);
      RowSums<Format>* to = sums + g * count_rows;
      if (fits) [[likely]] {
        AddFoldedRows<Format>(panel, count, folded, count_rows, block == first, to);
      } else {
        if (block == first) {
          ClearSums<Format>(to, count_rows);
        }
        AddRows<Format>(panel, block, count, rows, count_rows, to);
      }
      if (block + count == end) {
        for (int m = 0; m < count_rows; ++m) {
          Format::Finish(to[m], values[m] + g * kGroup);
        }
      }
    }
  }
}

// Computes columns [n, n + count), which share their scales.
template <BlockFormat Format>
void MultiplyShared(const cpu::Product& product, int64_t n, int count, int64_t first_row,
                    const ProductRow* rows, int count_rows) {
  FoldedColumns columns;
  columns.groups = (count + kGroup - 1) / kGroup;
  for (int c = 0; c < columns.groups * kGroup; ++c) {  // an absent column repeats the last
    columns.weights[c / kGroup][c % kGroup] = WeightRowAt(product, n + (c < count ? c : count - 1));
  }
  const int64_t blocks = product.k / kBlock;
  SharedValues parts[kMaxParts];
  RowSums<Format> sums[kFoldedGroups * kPanelRows];
  for (int p = 0; p < product.k_parts; ++p) {
    SumFolded<Format>(product, columns, blocks * p / product.k_parts,
                      blocks * (p + 1) / product.k_parts, rows, count_rows, sums, parts[p]);
  }
  for (int m = 0; m < count_rows; ++m) {
    AddParts(product.k_parts, count, parts[0][m], kPanelRows * kBlock);
    WriteValues(product, first_row + m, n, parts[0][m], count);
  }
}

// Computes columns [first, end) of all rows.
template <BlockFormat Format>
void MultiplyManyFolded(const cpu::Product& product, int64_t first, int64_t end) {
  const int64_t row_blocks = (product.t + kPanelRows - 1) / kPanelRows;
  for (int64_t i = 0; i < row_blocks; ++i) {
    const int64_t first_row = product.t * i / row_blocks;
    const int count_rows = static_cast<int>(product.t * (i + 1) / row_blocks - first_row);
    ProductRow rows[kPanelRows];
    for (int m = 0; m < count_rows; ++m) {
      rows[m] = RowOfActivations<Format>(product, first_row + m);
    }
    for (int64_t n = first; n < end;) {
      const int count = GroupSize<Format, kBlock>(n, end);
      MultiplyShared<Format>(product, n, count, first_row, rows, count_rows);
      n += count;
    }
  }
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
