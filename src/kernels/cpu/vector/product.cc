// Matrix products (docs/numerics.md 2): the choice of a loop (docs/cpu_kernels.md), and the loop
// for few rows of activations, which expands a row of weights in registers, block by block.
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/product_folded.h"
#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_integers.h"
#include "kernels/cpu/vector/product_one_row.h"
#include "kernels/cpu/vector/product_panel.h"
#include "kernels/cpu/vector/product_rows.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kTileBytes = 128 * 1024;  // weights that stay in the second-level cache while
                                            // groups of activation rows pass over them

// Rows of activations up to which a row of weights is multiplied as it is expanded; with more,
// panels are faster. Measured.
template <BlockFormat Format>
constexpr int kFewRows = kRegisters == 32 ? 8 : (MakesOneByOne<Format> ? 3 : 2);
template <ScalesInRegisters Format>
constexpr int kFewRows<Format> = Scaled<Format>::kFewestRows - 1;

// Weight rows that are summed together: a whole group, where its sums fit the registers or operands
// are made one by one.
template <BlockFormat Format, int kRows>
constexpr int kColumnsOf = kRegisters == 16 && kRows > 1 && !MakesOneByOne<Format> ? 1 : kGroup;

// True if weights are prefetched into the first-level cache, too. Measured: with more rows this
// pays only where blocks are long.
template <BlockFormat Format, int kRows>
constexpr bool kPrefetchesTwice = kRegisters == 32 && (kRows <= 2 || !SumsByBlocks<Format>);

// The sums of kColumns weight rows times kRows rows of activations, in registers.
template <BlockFormat Format, int kRows, int kColumns>
using Sums = F32[kRows][kColumns][Format::kSums];

// Adds one slice of a block of kColumns weight rows to the sums of activation row m.
template <BlockFormat Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddSlice(
    const typename Format::Block (&expanded)[kColumns][Format::kSlicesPerPart], int slice, int m,
    const ProductRow& row, int64_t x_block, Sums<Format, kRows, kColumns>& sums) {
  const int s = slice / kParts;
  const float* const x[1] = {row.x + x_block * kBlockFloats<Format> + Format::XOffset(slice)};
  const auto weight = [&](int j, int c) { return expanded[c][s].w[j]; };
  if constexpr (SumsByBlocks<Format>) {
    const float* const x_scales[1] = {row.scales + x_block};
    F32* lanes[1][kColumns];
    for (int c = 0; c < kColumns; ++c) {
      lanes[0][c] = &sums[m][c][slice];
    }
    Format::Add(
        weight, [&](int c) { return expanded[c][s].scale; }, x, x_scales, slice, lanes);
  } else {
    F32 chains[1][kColumns];
    for (int c = 0; c < kColumns; ++c) {
      chains[0][c] = sums[m][c][slice];
    }
    AddChains<Format::kXStride>(weight, 0, Format::kOperands, x, /*start=*/false, chains);
    for (int c = 0; c < kColumns; ++c) {
      sums[m][c][slice] = chains[0][c];
    }
  }
}

// Adds one slice of a block of kOpen weight rows, from column `first`, to the sums of all rows of
// activations. The chains of these columns take turns, operand by operand: a chain alone waits for
// each of its additions, and the processor does not look far enough ahead to fill the time.
template <BlockFormat Format, int kRows, int kColumns, int kOpen>
[[gnu::always_inline]] inline void AddOneByOne(const WeightRow (&weights)[kColumns], int first,
                                               int64_t block, int slice,
                                               const ProductRow (&rows)[kRows], int64_t x_block,
                                               Sums<Format, kRows, kColumns>& sums) {
  typename Format::OneByOne operands[kOpen];
  for (int c = 0; c < kOpen; ++c) {
    Format::Open(weights[first + c], block, slice, operands[c]);
  }
  const float* x[kRows];
  const float* x_scales[kRows];
  F32* lanes[kRows][kOpen];
  for (int m = 0; m < kRows; ++m) {
    x[m] = rows[m].x + x_block * kBlockFloats<Format> + Format::XOffset(slice);
    x_scales[m] = rows[m].scales + x_block;
    for (int c = 0; c < kOpen; ++c) {
      lanes[m][c] = &sums[m][first + c][slice];
    }
  }
  Format::Add(
      [&](int j, int c) __attribute__((always_inline)) { return operands[c].Next(j); },
      [&](int c) { return operands[c].ScaleValue(); }, x, x_scales, slice, lanes);
}

// Adds a part of the lanes, for one block of kColumns weight rows.
template <BlockFormat Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddPart(const WeightRow (&weights)[kColumns], int64_t block,
                                           int part, const ProductRow (&rows)[kRows],
                                           int64_t x_block, Sums<Format, kRows, kColumns>& sums) {
  if constexpr (MakesOneByOne<Format>) {
    constexpr int kOpen = kColumns / kRows;  // up to four chains in turn
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; c += kOpen) {
      AddOneByOne<Format, kRows, kColumns, kOpen>(weights, c, block, part, rows, x_block, sums);
    }
  } else {
    typename Format::Block expanded[kColumns][Format::kSlicesPerPart];
    for (int c = 0; c < kColumns; ++c) {
      Format::Expand(weights[c], block, part, expanded[c]);
    }
    for (int m = 0; m < kRows; ++m) {
      for (int s = 0; s < Format::kSlicesPerPart; ++s) {
        AddSlice<Format, kRows, kColumns>(expanded, s * kParts + part, m, rows[m], x_block, sums);
      }
      if constexpr (kRows * kColumns > 16) {
        ForgetMemory();
      }
    }
  }
}

// Adds one block of kColumns weight rows.
template <BlockFormat Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddBlock(const WeightRow (&weights)[kColumns], int64_t block,
                                            const ProductRow (&rows)[kRows], int64_t x_block,
                                            Sums<Format, kRows, kColumns>& sums) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    AddPart<Format, kRows, kColumns>(weights, block, part, rows, x_block, sums);
  }
  if constexpr (ClosesBlocks<Format>) {
    for (int c = 0; c < kColumns; ++c) {
      const float scale = Fp8Scale(weights[c], block);
      for (int m = 0; m < kRows; ++m) {
        F32* const lanes[1] = {sums[m][c]};
        Format::Close(Format::Factor(scale, rows[m].scales + x_block), lanes);
      }
    }
  }
}

// Sets `sums` to the sums of blocks [first, end) of kColumns weight rows, and with `rest` of the
// columns after the last block, too.
template <BlockFormat Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void SumBlocks(const cpu::Product& product,
                                             const WeightRow (&weights)[kColumns],
                                             const ProductRow (&rows)[kRows], int64_t first,
                                             int64_t end, bool rest,
                                             Sums<Format, kRows, kColumns>& sums) {
  for (auto& lanes : sums) {
    for (auto& row : lanes) {
      for (F32& sum : row) {
        sum = Zero();
      }
    }
  }
  for (int64_t block = first; block < end; ++block) {
    for (const WeightRow& row : weights) {
      const uint8_t* bytes = row.bytes + block * Format::kBlockBytes;
      for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
        PrefetchAhead<kPrefetchesTwice<Format, kRows>>(bytes + line);
      }
    }
    AddBlock<Format, kRows, kColumns>(weights, block, rows, block, sums);
  }
  if constexpr (!SumsByBlocks<Format>) {
    if (rest) {
      PaddedBlock<Format> padded[kColumns];
      WeightRow padded_rows[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        padded_rows[c] = padded[c].Fill(weights[c], product.k);
      }
      AddBlock<Format, kRows, kColumns>(padded_rows, 0, rows, product.k / kBlock, sums);
    }
  }
}

// SumBlocks into the sums of the group's columns from `column` on.
template <BlockFormat Format, int kRows, int kColumns>
void SumColumns(const cpu::Product& product, const WeightRow (&weights)[kColumns],
                const ProductRow (&rows)[kRows], int64_t first, int64_t end, bool rest,
                F32 (&out)[kRows][kGroup][Format::kSums], int column) {
  Sums<Format, kRows, kColumns> sums;
  SumBlocks<Format, kRows, kColumns>(product, weights, rows, first, end, rest, sums);
  for (int c = 0; c < kColumns; ++c) {
    for (int m = 0; m < kRows; ++m) {
      __builtin_memcpy(out[m][column + c], sums[m][c], sizeof(sums[m][c]));
    }
  }
}

// The weight rows of a group: `count` rows, `stride` apart.
struct Group {
  int64_t first;
  int64_t stride;
  int count;

  // An absent column repeats the last column.
  int64_t Row(int column) const { return first + (column < count ? column : count - 1) * stride; }
};

// The sums of every part of k, added over the lanes.
template <int kRows>
using PartSums = float[kMaxParts][kRows][kGroup];

// Computes one part of k of a group's columns.
template <BlockFormat Format, int kRows>
void SumPart(const cpu::Product& product, const WeightRow (&weights)[kGroup],
             const ProductRow (&rows)[kRows], int64_t first, int64_t end, bool rest,
             float (&out)[kRows][kGroup]) {
  Sums<Format, kRows, kGroup> sums;
  SumBlocks<Format, kRows, kGroup>(product, weights, rows, first, end, rest, sums);
  for (int m = 0; m < kRows; ++m) {
    Format::Finish(sums[m], out[m]);
  }
}

// Computes all parts of k of a group's columns. Sums of many rows are in memory already, and are
// added over the lanes while they are in the first-level cache. Sums of few rows wait until all
// parts are summed: a tree between parts would hold up the stream of weights.
template <BlockFormat Format, int kRows>
[[gnu::always_inline]] inline void SumParts(const cpu::Product& product, const Group& group,
                                            const ProductRow (&rows)[kRows],
                                            PartSums<kRows>& parts) {
  WeightRow weights[kGroup];
  for (int c = 0; c < kGroup; ++c) {
    weights[c] = WeightRowAt(product, group.Row(c));
  }
  const int64_t blocks = product.k / kBlock;
  const auto first = [&](int p) { return blocks * p / product.k_parts; };
  const bool rest = product.k % kBlock != 0;
  constexpr int kColumns = kColumnsOf<Format, kRows>;
  if constexpr (kColumns == kGroup && kRows > 2) {
    for (int p = 0; p < product.k_parts; ++p) {
      SumPart<Format, kRows>(product, weights, rows, first(p), first(p + 1), rest, parts[p]);
    }
  } else {
    F32 sums[kMaxParts][kRows][kGroup][Format::kSums];
    for (int column = 0; column < kGroup; column += kColumns) {
      WeightRow columns[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        columns[c] = weights[column + c];
      }
      for (int p = 0; p < product.k_parts; ++p) {
        SumColumns<Format, kRows, kColumns>(product, columns, rows, first(p), first(p + 1), rest,
                                            sums[p], column);
      }
    }
    for (int p = 0; p < product.k_parts; ++p) {
      for (int m = 0; m < kRows; ++m) {
        Format::Finish(sums[p][m], parts[p][m]);
      }
    }
  }
}

template <BlockFormat Format, int kRows>
void MultiplyGroup(const cpu::Product& product, const Group& group,
                   const ProductRow (&rows)[kRows]) {
  PartSums<kRows> parts;
  SumParts<Format, kRows>(product, group, rows, parts);
  AddParts(product.k_parts, kRows * kGroup, parts[0][0], kRows * kGroup);
  for (int m = 0; m < kRows; ++m) {
    for (int i = 0; i < group.count; ++i) {
      WriteValue(product, m, group.Row(i), parts[0][m][i]);
    }
  }
}

// Multiplies weight rows [first, end) by kRows activation rows. The rows of a group are a quarter
// of the range apart: four sequential streams are read faster than one, and than four rows side by
// side, whose pages follow each other too closely. Measured.
template <BlockFormat Format, int kRows>
void MultiplyFewRows(const cpu::Product& product, int64_t first, int64_t end) {
  ProductRow rows[kRows];
  for (int m = 0; m < kRows; ++m) {
    rows[m] = RowOfActivations<Format>(product, m);
  }
  const int64_t quarter = (end - first) / kGroup;
  for (int64_t i = 0; i < quarter; ++i) {
    MultiplyGroup<Format, kRows>(product, {first + i, quarter, kGroup}, rows);
  }
  const int64_t rest = first + quarter * kGroup;
  if (rest < end) {
    MultiplyGroup<Format, kRows>(product, {rest, 1, static_cast<int>(end - rest)}, rows);
  }
}

template <BlockFormat Format>
void MultiplyFew(const cpu::Product& product, int64_t first, int64_t end) {
  if constexpr (MakesOneByOne<Format> && !ClosesBlocks<Format>) {
    if (OneRow<Format>::Takes(product)) return OneRow<Format>(product).Multiply(first, end);
  }
  WithConstant<kFewRows<Format>>(
      product.t, [&](auto rows) { MultiplyFewRows<Format, rows.kValue>(product, first, end); });
}

// Multiplies tiles of weights by blocks of activations that fit the second-level cache together.
template <BlockFormat Format>
void MultiplyMany(const cpu::Product& product, int64_t first, int64_t end) {
  const int64_t row_bytes =
      (product.k / kBlock + 1) * kBlockFloats<Format> * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = kRowBytes / row_bytes;
  // Where sums are in memory, the sums of more rows would not fit the first-level cache.
  constexpr int64_t kMost = ScalesInRegisters<Format> ? kPanelRows / 2 : kPanelRows;
  const int64_t most = fitting < 16 ? 16 : fitting < kMost ? fitting : kMost;
  const int64_t row_blocks = (product.t + most - 1) / most;
  const int64_t tile_columns = kTileBytes / (product.row_bytes + 1) / kGroup * kGroup;
  const int64_t tile = row_blocks == 1 ? end - first : tile_columns < 16 ? 16 : tile_columns;
  for (int64_t n = first; n < end; n += tile) {
    const int64_t tile_end = n + tile < end ? n + tile : end;
    for (int64_t i = 0; i < row_blocks; ++i) {
      const int64_t row = product.t * i / row_blocks;
      MultiplyManyRows<Format>(product, n, tile_end, row,
                               static_cast<int>(product.t * (i + 1) / row_blocks - row));
    }
  }
}

// The table of docs/cpu_kernels.md has these limits.
template <BlockFormat Format, int kAvx2, int kAvx512, int kAvx512Bf16 = kAvx512>
constexpr bool kHasFewRows = kFewRows<Format> == (kRegisters == 16       ? kAvx2
                                                  : kOperandColumns == 1 ? kAvx512
                                                                         : kAvx512Bf16);
static_assert(kHasFewRows<Fp4<Operand>, 3, 8, 7> && kHasFewRows<Fp8, 3, 8, 5>);
static_assert(kHasFewRows<Fp8WholeBlocks, 3, 8> && kHasFewRows<Fp8AsBf16, 2, 8>);
static_assert(kHasFewRows<Bf16ByBlocks, 2, 8> && kHasFewRows<Bf16Pairs, 2, 8>);
static_assert(Fp8::kQuantized.fewest_rows == 12 && Fp8::kUnquantized.fewest_rows == 20);

template <BlockFormat Format>
void MultiplyFormat(const cpu::Product& product, int64_t first, int64_t end) {
  if constexpr (Folds<Format>) {
    if (product.t >= FindFolding<Format>(product).fewest_rows) {
      return MultiplyManyFolded<Format>(product, first, end);
    }
  }
  product.t <= kFewRows<Format> ? MultiplyFew<Format>(product, first, end)
                                : MultiplyMany<Format>(product, first, end);
}

}  // namespace

void MultiplyRows(const cpu::Product& product, int64_t first, int64_t end) {
  first += product.first_row;
  end += product.first_row;
  switch (product.format) {
    case cpu::ProductFormat::kF32:
      return MultiplyFormat<Plain>(product, first, end);
    case cpu::ProductFormat::kBf16:
      return MultiplyFormat<Bf16Pairs>(product, first, end);
    case cpu::ProductFormat::kBf16ByBlocks:
      return MultiplyFormat<Bf16ByBlocks>(product, first, end);
    case cpu::ProductFormat::kFp8:
      return product.e8m0_scales ? MultiplyFormat<Fp8>(product, first, end)
                                 : MultiplyFormat<Fp8WholeBlocks>(product, first, end);
    case cpu::ProductFormat::kFp8AsBf16:  // times a power of two, an E4M3 number is a bf16 number
      return product.e8m0_scales ? MultiplyFormat<Fp8>(product, first, end)
                                 : MultiplyFormat<Fp8AsBf16>(product, first, end);
    case cpu::ProductFormat::kFp4:
      return MultiplyFormat<Fp4<Operand>>(product, first, end);
  }
}

}  // namespace fathom::kernels::KERNEL_ISA
