// Matrix products (docs/numerics.md 2). With few rows of activations a row of weights is expanded
// in registers, block by block, and multiplied with all of them: one sequential stream of weights.
// With many, product_panel.h.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/product_formats.h"
#include "kernels/cpu/product_integers.h"
#include "kernels/cpu/product_panel.h"
#include "kernels/cpu/product_rows.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

// How far ahead, and into the second-level cache: the first has room for the misses of a shorter
// distance only, which does not cover what finding a page costs. Measured.
constexpr int64_t kPrefetchBytes = 4096;
constexpr int64_t kTileBytes = 128 * 1024;  // of weights that stay in the second-level cache while
                                            // groups of activation rows pass over them
constexpr int kFewRows = kRegisters == 16 ? 2 : 8;

template <class Format>
constexpr int kMostFewRows = kFewRows;
template <>
constexpr int kMostFewRows<Fp8AsBf16> = 2;  // expanding costs more than a panel

// Weight rows at once: one sequential stream is fastest, but with more rows of activations the
// loads of these are the limit. Measured.
template <class Format, int kRows>
constexpr int kColumnsOf = kRegisters == 16 || kRows < 2 ? 1
                           : Format::kChains == 2        ? 2
                                                         : 4;
template <int kRows>
constexpr int kColumnsOf<Fp8AsBf16, kRows> = 1;
template <int kRows>
constexpr int kColumnsOf<Bf16Pairs, kRows> = kRegisters == 16 ? 1 : 4;

// The registers of kColumns weight rows times kRows rows of activations.
template <class Format, int kRows, int kColumns>
using Sums = F32[kRows][kColumns][Format::kSums];

// Adds one slice of a block of kColumns weight rows to the sums of activation row m.
template <class Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddSlice(
    const typename Format::Block (&expanded)[kColumns][Format::kSlicesPerPart], int slice, int m,
    const ProductRow& row, int64_t x_block, Sums<Format, kRows, kColumns>& sums) {
  const int s = slice / kParts;
  const float* const x[1] = {row.x + x_block * kBlockFloats<Format> + Format::XOffset(slice)};
  const auto weight = [&](int j, int c) { return expanded[c][s].w[j]; };
  if constexpr (Format::kQuantized) {
    const float* const x_scales[1] = {row.scales + x_block};
    F32* lanes[1][kColumns];
    for (int c = 0; c < kColumns; ++c) {
      lanes[0][c] = &sums[m][c][slice];
    }
    Format::Add(
        weight, [&](int c) { return expanded[c][s].scale; }, x, x_scales, lanes);
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

// Adds one block of kColumns weight rows.
template <class Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddBlock(const WeightRow (&weights)[kColumns], int64_t block,
                                            const ProductRow (&rows)[kRows], int64_t x_block,
                                            Sums<Format, kRows, kColumns>& sums) {
  for (int part = 0; part < kParts; ++part) {
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
  if constexpr (Format::kWholeBlocks) {
    for (int c = 0; c < kColumns; ++c) {
      const float scale = Fp8Scale(weights[c], block);
      for (int m = 0; m < kRows; ++m) {
        F32* const lanes[1] = {sums[m][c]};
        Format::Close(Format::Factor(scale, rows[m].scales + x_block), lanes);
      }
    }
  }
}

// Blocks [first, end) of kColumns weight rows, and with `rest` the columns behind the last block.
template <class Format, int kRows, int kColumns>
void SumColumns(const cpu::Product& product, const WeightRow (&weights)[kColumns],
                const ProductRow (&rows)[kRows], int64_t first, int64_t end, bool rest,
                F32 (&out)[kRows][kGroup][Format::kSums], int column) {
  Sums<Format, kRows, kColumns> sums;
  for (auto& lanes : sums) {
    for (auto& row : lanes) {
      for (F32& sum : row) {
        sum = Zero();
      }
    }
  }
  for (int64_t block = first; block < end; ++block) {
    // Of several rows: the place of the next ones.
    const int64_t distance = kColumns == 1 ? kPrefetchBytes : kColumns * product.row_bytes;
    for (const WeightRow& row : weights) {
      const uint8_t* ahead = row.bytes + block * Format::kBlockBytes + distance;
      for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
        __builtin_prefetch(ahead + line, 0, 2);
      }
    }
    AddBlock<Format, kRows, kColumns>(weights, block, rows, block, sums);
  }
  if constexpr (!Format::kQuantized) {
    if (rest) {
      PaddedBlock<Format> padded[kColumns];
      WeightRow padded_rows[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        padded_rows[c] = padded[c].Fill(weights[c], product.k);
      }
      AddBlock<Format, kRows, kColumns>(padded_rows, 0, rows, product.k / kBlock, sums);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int m = 0; m < kRows; ++m) {
      __builtin_memcpy(out[m][column + c], sums[m][c], sizeof(sums[m][c]));
    }
  }
}

// The sums of every part of k, of the columns of a group.
template <class Format, int kRows>
using GroupSums = F32[kMaxParts][kRows][kGroup][Format::kSums];

// kColumns weight rows from `n`, columns of the group from `column`: all parts of a row before the
// next row.
template <class Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void SumParts(const cpu::Product& product, int64_t n,
                                            const ProductRow (&rows)[kRows],
                                            GroupSums<Format, kRows>& sums, int column) {
  WeightRow weights[kColumns];
  for (int i = 0; i < kColumns; ++i) {
    weights[i] = RowOf(product, n + i);
  }
  const int64_t blocks = product.k / kBlock;
  const bool rest = product.k % kBlock != 0;
  for (int p = 0; p < product.k_parts; ++p) {
    SumColumns<Format, kRows, kColumns>(product, weights, rows, blocks * p / product.k_parts,
                                        blocks * (p + 1) / product.k_parts, rest, sums[p], column);
  }
}

// Columns [n, n + count), count <= kGroup, of kRows activation rows.
template <class Format, int kRows>
void MultiplyGroup(const cpu::Product& product, int64_t n, int count,
                   const ProductRow (&rows)[kRows]) {
  constexpr int kColumns = kColumnsOf<Format, kRows>;
  GroupSums<Format, kRows> sums;
  int c = 0;
  for (; c + kColumns <= count; c += kColumns) {
    SumParts<Format, kRows, kColumns>(product, n + c, rows, sums, c);
  }
  for (; c < kGroup; ++c) {  // absent columns: the last one again
    SumParts<Format, kRows, 1>(product, n + (c < count ? c : count - 1), rows, sums, c);
  }
  float parts[kMaxParts][kRows][kGroup];
  for (int p = 0; p < product.k_parts; ++p) {
    for (int m = 0; m < kRows; ++m) {
      Format::Finish(sums[p][m], parts[p][m]);
    }
  }
  AddParts(product.k_parts, kRows * kGroup, parts[0][0], kRows * kGroup);
  for (int m = 0; m < kRows; ++m) {
    for (int i = 0; i < count; ++i) {
      WriteValue(product, m, n + i, parts[0][m][i]);
    }
  }
}

// Weight rows [first, end) against kRows activation rows.
template <class Format, int kRows>
void MultiplyFewRows(const cpu::Product& product, int64_t first, int64_t end) {
  ProductRow rows[kRows];
  for (int m = 0; m < kRows; ++m) {
    rows[m] = RowOfActivations<Format>(product, m);
  }
  for (int64_t n = first; n < end;) {
    const int count = GroupSize<Format>(n, end);
    MultiplyGroup<Format, kRows>(product, n, count, rows);
    n += count;
  }
}

template <class Format>
void MultiplyFew(const cpu::Product& product, int64_t first, int64_t end) {
  switch (product.t) {
    case 1:
      return MultiplyFewRows<Format, 1>(product, first, end);
    case 2:
      return MultiplyFewRows<Format, 2>(product, first, end);
    default:
      break;
  }
  constexpr int kMost = kMostFewRows<Format>;
  if constexpr (kMost > 2) {
    if (product.t == 3) {
      return MultiplyFewRows<Format, 3>(product, first, end);
    }
  }
  if constexpr (kMost > 3) {
    switch (product.t) {
      case 4:
        return MultiplyFewRows<Format, 4>(product, first, end);
      case 5:
        return MultiplyFewRows<Format, 5>(product, first, end);
      case 6:
        return MultiplyFewRows<Format, 6>(product, first, end);
      case 7:
        return MultiplyFewRows<Format, 7>(product, first, end);
      default:
        return MultiplyFewRows<Format, 8>(product, first, end);
    }
  }
}

// Tiles of weights and blocks of activations that fit the second-level cache together.
template <class Format>
void MultiplyMany(const cpu::Product& product, int64_t first, int64_t end) {
  const int64_t row_bytes =
      (product.k / kBlock + 1) * kBlockFloats<Format> * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = kRowBytes / row_bytes;
  const int64_t most = fitting < 16 ? 16 : fitting < kPanelRows ? fitting : kPanelRows;
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

template <class Format>
void MultiplyFormat(const cpu::Product& product, int64_t first, int64_t end) {
  product.t <= kMostFewRows<Format> ? MultiplyFew<Format>(product, first, end)
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
    case cpu::ProductFormat::kFp8:
      return product.e8m0_scales ? MultiplyFormat<Fp8>(product, first, end)
                                 : MultiplyFormat<Fp8WholeBlocks>(product, first, end);
    case cpu::ProductFormat::kFp8AsBf16:
      return MultiplyFormat<Fp8AsBf16>(product, first, end);
    case cpu::ProductFormat::kFp4:
      return MultiplyFormat<Fp4<Operand>>(product, first, end);
  }
}

}  // namespace fathom::KERNEL_ISA
