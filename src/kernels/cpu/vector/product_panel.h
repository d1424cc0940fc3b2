// Products with many rows of activations: a panel of kGroup weight rows is expanded into the
// first-level cache, some blocks of k at a time, and tiles of rows of activations pass over it.
// Sums stay in memory between the panels of a k range; they are the sums of product.cc in the same
// order.
#pragma once

#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_rows.h"
#include "kernels/cpu/vector/product_scaled.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int kPanelRows = 64;  // rows of activations that share an expansion
constexpr int64_t kRowBytes =
    512 * 1024;  // bytes of these rows: they stay in the second-level cache

// Rows of a tile: its chains, a row of weights and a row of activations fill all registers.
template <BlockFormat Format>
constexpr int kTileRows = kRegisters == 16 || Format::kChains == 2 || KeepsSums<Format> ? 3 : 6;

// Expanded weights in the order in which AddTile reads them: one stream suits the first-level cache
// best.
template <BlockFormat Format>
struct Panel {
  static constexpr int kSlices = Format::kSlices;
  typename Format::Value w[Format::kPanelBlocks * kSlices * Format::kOperands * kGroup];
  typename Format::Scale scales[Format::kPanelBlocks][kSlices][kGroup];

  // Returns the first operand of a block and slice.
  auto* At(int64_t block, int slice) {
    const int64_t i =
        SumsByBlocks<Format> ? block * kSlices + slice : slice * Format::kPanelBlocks + block;
    return w + i * Format::kOperands * kGroup;
  }
  const auto* At(int64_t block, int slice) const {
    return const_cast<Panel*>(this)->At(block, slice);
  }
};

// The number of registers for the sums of one row.
template <BlockFormat Format>
using RowSums = F32[kGroup][Format::kSums];

// Expands a block of the panel's rows. `change` turns an operand into the panel's form.
template <BlockFormat Format, class Change>
void ExpandBlock(const WeightRow (&rows)[kGroup], int64_t block, int64_t to, Panel<Format>& panel,
                 const Change& change) {
  for (int c = 0; c < kGroup; ++c) {
    for (int part = 0; part < kParts; ++part) {
      typename Format::Block slices[Format::kSlicesPerPart];
      Format::Expand(rows[c], block, part, slices);
      for (int s = 0; s < Format::kSlicesPerPart; ++s) {
        const int slice = s * kParts + part;
        auto* w = panel.At(to, slice);
        for (int j = 0; j < Format::kOperands; ++j) {
          w[j * kGroup + c] = change(slices[s].w[j]);
        }
        if constexpr (SumsByBlocks<Format>) {
          panel.scales[to][slice][c] = slices[s].scale;
        }
      }
    }
  }
}

template <BlockFormat Format>
void ExpandBlock(const WeightRow (&rows)[kGroup], int64_t block, int64_t to, Panel<Format>& panel) {
  ExpandBlock<Format>(rows, block, to, panel, [](typename Format::Value w) { return w; });
}

// Expands blocks [first, first + count) of the panel's rows, and prefetches the next panel's into
// the second-level cache.
template <BlockFormat Format>
void ExpandPanel(const WeightRow (&rows)[kGroup], int64_t row_bytes, int64_t first, int64_t count,
                 Panel<Format>& panel) {
  for (int64_t i = 0; i < count; ++i) {
    for (const WeightRow& row : rows) {
      const uint8_t* next = row.bytes + kGroup * row_bytes + (first + i) * Format::kBlockBytes;
      for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
        __builtin_prefetch(next + line, 0, 2);
      }
    }
    ExpandBlock<Format>(rows, first + i, i, panel);
  }
}

// Prefetches into the first-level cache the weights of the panel whose rows are `skipped` further
// on, beginning with `block`: the tiles in between take as long as the prefetch.
template <BlockFormat Format>
void PrefetchBlocks(const WeightRow (&rows)[kGroup], const cpu::Product& product, int64_t skipped,
                    int64_t block) {
  constexpr int64_t kBytes = Format::kPanelBlocks * Format::kBlockBytes;
  for (const WeightRow& row : rows) {
    const uint8_t* bytes = row.bytes + skipped * product.row_bytes + block * Format::kBlockBytes;
    for (int64_t line = 0; line < kBytes; line += 64) {
      __builtin_prefetch(bytes + line, 0, 3);
    }
    if constexpr (Format::kScaleBytes > 0) {
      const int64_t scale = skipped * product.scale_columns + block * Format::kScaleBytes;
      __builtin_prefetch(row.scales + scale, 0, 3);
    }
  }
}

// Adds `count` blocks of the panel, the first of which is block `first` of k, to the sums of kRows
// rows.
template <BlockFormat Format, int kRows>
[[gnu::noinline]] void AddTile(const Panel<Format>& panel, int64_t first, int64_t count,
                               const ProductRow* rows,
                               RowSums<Format>* sums) requires(SumsByBlocks<Format> &&
                                                               !KeepsSums<Format>) {
  const float* x[kRows];  // operands of a slice follow the operands of the slice before
  const float* x_scales[kRows];
  for (int m = 0; m < kRows; ++m) {
    x[m] = rows[m].x + first * kBlockFloats<Format>;
    x_scales[m] = rows[m].scales + first;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int slice = 0; slice < Format::kSlices; ++slice) {
      const auto* w = panel.At(i, slice);
      F32* lanes[kRows][kGroup];
      for (int m = 0; m < kRows; ++m) {
        for (int c = 0; c < kGroup; ++c) {
          lanes[m][c] = &sums[m][c][slice];
        }
      }
      const PanelScales<typename Format::Scale, Format::kRowsShareScales> scales = {
          panel.scales[i][slice]};
      Format::Add([w](int j, int c) { return w[j * kGroup + c]; }, scales, x, x_scales, slice,
                  lanes);
      ForgetMemory();
      for (int m = 0; m < kRows; ++m) {
        x[m] += kBlockFloats<Format> / Format::kSlices;
      }
    }
    if constexpr (ClosesBlocks<Format>) {
      for (int m = 0; m < kRows; ++m) {
        F32* lanes[kGroup];
        for (int c = 0; c < kGroup; ++c) {
          lanes[c] = sums[m][c];
        }
        Format::Close(Format::Factor(panel.scales[i][0][0], x_scales[m]), lanes);
      }
    }
    for (int m = 0; m < kRows; ++m) {
      ++x_scales[m];
    }
  }
}

// For sums that stay in registers.
template <BlockFormat Format, int kRows>
[[gnu::noinline]] void AddTile(const Panel<Format>& panel, int64_t first, int64_t count,
                               const ProductRow* rows,
                               RowSums<Format>* sums) requires KeepsSums<Format> {
  constexpr int kColumns = kRegisters == 16 ? 2 : 4;
  for (int column = 0; column < kGroup; column += kColumns) {
    for (int slice = 0; slice < Format::kSlices; ++slice) {
      F32 chains[kRows][kColumns];
      const float* x[kRows];
      const float* marks[kRows];
      for (int m = 0; m < kRows; ++m) {
        marks[m] = rows[m].scales + first;
        x[m] = rows[m].x + first * kBlockFloats<Format> + Format::XOffset(slice);
        for (int c = 0; c < kColumns; ++c) {
          chains[m][c] = sums[m][column + c][slice];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto* w = panel.At(i, slice) + column;
        const auto* scales = panel.scales[i][slice] + column;
        Format::AddTo([w](int j, int c) { return w[j * kGroup + c]; },
                      [scales](int c) { return scales[c]; }, x, marks, slice, chains);
        for (int m = 0; m < kRows; ++m) {
          x[m] += kBlockFloats<Format>;
          ++marks[m];
        }
      }
      for (int m = 0; m < kRows; ++m) {
        for (int c = 0; c < kColumns; ++c) {
          sums[m][column + c][slice] = chains[m][c];
        }
      }
    }
  }
}

// For formats that are not summed by blocks: the chains stay in registers.
template <BlockFormat Format, int kRows>
[[gnu::noinline]] void AddTile(const Panel<Format>& panel, int64_t first, int64_t count,
                               const ProductRow* rows,
                               RowSums<Format>* sums) requires(!SumsByBlocks<Format>) {
  for (int slice = 0; slice < Format::kSlices; ++slice) {
    F32 chains[kRows][kGroup];
    const float* x[kRows];
    for (int m = 0; m < kRows; ++m) {
      x[m] = rows[m].x + first * kBlock + Format::XOffset(slice);
      for (int c = 0; c < kGroup; ++c) {
        chains[m][c] = sums[m][c][slice];
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const auto* w = panel.At(i, slice);
      AddChains<Format::kXStride>([w](int j, int c) { return w[j * kGroup + c]; }, 0,
                                  Format::kOperands, x, /*start=*/false, chains);
      for (int m = 0; m < kRows; ++m) {
        x[m] += kBlock;
      }
    }
    for (int m = 0; m < kRows; ++m) {
      for (int c = 0; c < kGroup; ++c) {
        sums[m][c][slice] = chains[m][c];
      }
    }
  }
}

// Calls tile(m, height), height a constant, for tiles of about equal height that cover `count_rows`
// rows; m: the first row.
template <int kMost, class Tile>
[[gnu::always_inline]] inline void ForTiles(int count_rows, const Tile& tile) {
  int tiles = (count_rows + kMost - 1) / kMost;
  for (int m = 0; tiles > 0; --tiles) {
    const int height = (count_rows - m + tiles - 1) / tiles;
    WithConstant<kMost>(height, [&](auto constant) { tile(m, constant); });
    m += height;
  }
}

template <BlockFormat Format>
void AddRows(const Panel<Format>& panel, int64_t first, int64_t count, const ProductRow* rows,
             int count_rows, RowSums<Format>* sums) {
  ForTiles<kTileRows<Format>>(count_rows, [&](int m, auto height) {
    AddTile<Format, height.kValue>(panel, first, count, rows + m, sums + m);
  });
}

template <BlockFormat Format>
void ClearSums(RowSums<Format>* sums, int count_rows) {
  for (int m = 0; m < count_rows; ++m) {
    for (auto& column : sums[m]) {
      for (F32& sum : column) {
        sum = Zero();
      }
    }
  }
}

// Sets the sums to the sums of blocks [first, end) of k and of the columns after the last whole
// block of the product. With `scaled`, weights are multiplied by their scales as they are expanded,
// or scales by adding their exponents.
template <BlockFormat Format>
void SumRange(const WeightRow (&weights)[kGroup], bool scaled, const cpu::Product& product,
              int64_t first, int64_t end, const ProductRow* rows, int count_rows,
              RowSums<Format>* sums) {
  if constexpr (ScalesInRegisters<Format>) {
    if (scaled) {
      return SumScaledBlocks<Scaled<Format>>(weights, product.row_bytes, first, end, rows,
                                             count_rows, sums);
    }
  } else if constexpr (HasScaledFormat<Format>) {
    if (scaled) {
      return SumRange<Scaled<Format>>(weights, false, product, first, end, rows, count_rows, sums);
    }
  }
  ClearSums<Format>(sums, count_rows);
  Panel<Format> panel;
  for (int64_t block = first; block < end; block += Format::kPanelBlocks) {
    const int64_t count = end - block < Format::kPanelBlocks ? end - block : Format::kPanelBlocks;
    ExpandPanel<Format>(weights, product.row_bytes, block, count, panel);
    if constexpr (Format::kPrefetchesBlocks) {
      const bool is_last = block + count == product.k / kBlock;
      PrefetchBlocks<Format>(weights, product, is_last ? kGroup : 0, is_last ? 0 : block + count);
    }
    AddRows<Format>(panel, block, count, rows, count_rows, sums);
  }
  if (product.k % kBlock != 0) {
    PaddedBlock<Format> padded[kGroup];
    WeightRow padded_rows[kGroup];
    for (int c = 0; c < kGroup; ++c) {
      padded_rows[c] = padded[c].Fill(weights[c], product.k);
    }
    ExpandBlock<Format>(padded_rows, 0, 0, panel);
    AddRows<Format>(panel, product.k / kBlock, 1, rows, count_rows, sums);
  }
}

// Columns that are written together; the last group may be shorter than its place.
constexpr int kStrip = 16;
using StripValues = float[kPanelRows][kStrip + kGroup];

// Sets values[..][column ...] to columns [n, n + count), count <= kGroup, of all rows; later
// columns are undefined.
template <BlockFormat Format>
void SumPanel(const cpu::Product& product, int64_t n, int count, const ProductRow* rows,
              int count_rows, bool rows_fit, StripValues& values, int64_t column) {
  WeightRow weights[kGroup];
  for (int c = 0; c < kGroup; ++c) {  // an absent column repeats the last
    weights[c] = WeightRowAt(product, n + (c < count ? c : count - 1));
  }
  const int64_t blocks = product.k / kBlock;
  const bool scaled = rows_fit && ScalesFit<Format>(weights, blocks);
  float parts[kMaxParts][kPanelRows][kGroup];
  for (int p = 0; p < product.k_parts; ++p) {
    const int64_t first = blocks * p / product.k_parts;
    const int64_t end = blocks * (p + 1) / product.k_parts;
    RowSums<Format> sums[kPanelRows];
    SumRange<Format>(weights, scaled, product, first, end, rows, count_rows, sums);
    for (int m = 0; m < count_rows; ++m) {
      Format::Finish(sums[m], parts[p][m]);
    }
  }
  AddParts(product.k_parts, count_rows * kGroup, parts[0][0], kPanelRows * kGroup);
  for (int m = 0; m < count_rows; ++m) {
    __builtin_memcpy(values[m] + column, parts[0][m], sizeof(parts[0][m]));
  }
}

// True if the sums of these rows of activations may be made with `scaled` (SumRange).
template <BlockFormat Format>
bool RowsFit(const ProductRow* rows, int count_rows, int64_t blocks) {
  uint32_t marks = 0;
  if constexpr (HasScaledFormat<Format> && !ScalesInRegisters<Format>) {
    for (int m = 0; m < count_rows; ++m) {
      for (int64_t i = 0; i < blocks; ++i) {
        marks |= FloatToBits(rows[m].scales[i]);
      }
    }
  }
  return (marks & Fp4Integers::kNanMark) == 0;
}

// Computes columns [first, end) of activation rows [first_row, first_row + count_rows), at most
// kPanelRows.
template <BlockFormat Format>
void MultiplyManyRows(const cpu::Product& product, int64_t first, int64_t end, int64_t first_row,
                      int count_rows) {
  ProductRow rows[kPanelRows];
  for (int m = 0; m < count_rows; ++m) {
    rows[m] = RowOfActivations<Format>(product, first_row + m);
  }
  const bool rows_fit = RowsFit<Format>(rows, count_rows, product.k / kBlock);
  for (int64_t strip = first; strip < end; strip += kStrip) {
    const int columns = static_cast<int>(end - strip < kStrip ? end - strip : kStrip);
    StripValues values;
    for (int64_t n = strip; n < strip + columns;) {
      const int count = GroupSize<Format>(n, strip + columns);
      SumPanel<Format>(product, n, count, rows, count_rows, rows_fit, values, n - strip);
      n += count;
    }
    for (int m = 0; m < count_rows; ++m) {
      WriteValues(product, first_row + m, strip, values[m], columns);
    }
  }
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
