// Matrix products (docs/numerics.md 2): a row of weights is expanded once into registers, block by
// block, and multiplied with up to 16 rows of activations.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/product_formats.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kProductBlock;
constexpr int kMaxRows = 16;                // of activations, per pass over the weights
constexpr int kMaxParts = 8;                // of k
constexpr int64_t kPrefetchBytes = 2048;    // hides the latency of memory; measured, see the design
constexpr int64_t kTileBytes = 128 * 1024;  // of weights that stay in the second-level cache while
                                            // groups of activation rows pass over them

// Up to 16 rows of activations.
struct RowGroup {
  const float* x[kMaxRows];
  const float* scales[kMaxRows];
};

// The lanes of kColumns weight rows times kRows rows of activations.
template <class Format, int kRows, int kColumns>
using Sums = F32[kColumns][kRows][kParts][Format::kAccumulators];

// Adds one block of kColumns weight rows.
template <class Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddBlock(const WeightRow (&rows)[kColumns], int64_t block,
                                            const RowGroup& group, int64_t x_block,
                                            Sums<Format, kRows, kColumns>& sums) {
  for (int part = 0; part < kParts; ++part) {
    typename Format::Block weights[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      Format::Expand(rows[c], block, part, weights[c]);
    }
    for (int m = 0; m < kRows; ++m) {
      F32* lanes[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        lanes[c] = sums[c][m][part];
      }
      Format::template Accumulate<kColumns>(weights, group.x[m] + x_block * kBlock + part * kLanes,
                                            Format::kQuantized ? group.scales[m][x_block] : 0.0f,
                                            lanes);
    }
  }
  if constexpr (Format::kWholeBlocks) {
    for (int c = 0; c < kColumns; ++c) {
      for (int m = 0; m < kRows; ++m) {
        Format::CloseBlock(rows[c], block, group.scales[m][x_block], sums[c][m]);
      }
    }
  }
}

// Blocks [first, end) of kColumns weight rows.
template <class Format, int kRows, int kColumns>
[[gnu::always_inline]] inline void AddBlocks(const WeightRow (&rows)[kColumns],
                                             const RowGroup& group, int64_t first, int64_t end,
                                             Sums<Format, kRows, kColumns>& sums) {
  for (int64_t block = first; block < end; ++block) {
    const uint8_t* ahead = rows[kColumns - 1].bytes + block * Format::kBlockBytes + kPrefetchBytes;
    for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
      __builtin_prefetch(ahead + line);
    }
    AddBlock<Format, kRows, kColumns>(rows, block, group, block, sums);
  }
}

// The columns behind the last whole block, as a block filled up with zeros. The activations there
// are -0, and fma(0, -0, a) is a.
template <class Format, int kRows, int kColumns>
void AddRest(const WeightRow (&rows)[kColumns], const RowGroup& group, int64_t k,
             Sums<Format, kRows, kColumns>& sums) {
  uint8_t padded[kColumns][Format::kBlockBytes] = {};
  WeightRow padded_rows[kColumns];
  const int64_t block = k / kBlock;
  for (int c = 0; c < kColumns; ++c) {
    __builtin_memcpy(padded[c], rows[c].bytes + block * Format::kBlockBytes,
                     static_cast<size_t>(k % kBlock * Format::kBlockBytes / kBlock));
    padded_rows[c] = {padded[c], nullptr, true};
  }
  AddBlock<Format, kRows, kColumns>(padded_rows, 0, group, block, sums);
}

// out[c][m] = the product of weight row c with activation row m.
template <class Format, int kRows, int kColumns>
void MultiplyColumns(const cpu::Product& product, const WeightRow (&rows)[kColumns],
                     const RowGroup& group, float (&out)[kColumns][kRows]) {
  const int64_t blocks = product.k / kBlock;
  float parts[kMaxParts][kColumns][kRows];
  for (int p = 0; p < product.k_parts; ++p) {
    Sums<Format, kRows, kColumns> sums;
    for (auto& column : sums) {
      for (auto& lanes : column) {
        for (auto& part : lanes) {
          for (F32& sum : part) {
            sum = Zero();
          }
        }
      }
    }
    AddBlocks<Format, kRows, kColumns>(rows, group, blocks * p / product.k_parts,
                                       blocks * (p + 1) / product.k_parts, sums);
    if constexpr (!Format::kQuantized) {
      if (product.k % kBlock != 0) {
        AddRest<Format, kRows, kColumns>(rows, group, product.k, sums);
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      for (int m = 0; m < kRows; ++m) {
        parts[p][c][m] = Format::Finish(sums[c][m]);
      }
    }
  }
  for (int half = product.k_parts / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) {
      for (int i = 0; i < kColumns * kRows; ++i) {
        float& sum = parts[p][i / kRows][i % kRows];
        sum = sum + parts[p + half][i / kRows][i % kRows];
      }
    }
  }
  __builtin_memcpy(out, parts[0], sizeof(out));
}

void Write(const cpu::Product& product, int64_t first_row, int rows, int64_t column,
           const float* values) {
  for (int m = 0; m < rows; ++m) {
    const int64_t i = first_row + m;
    const int64_t row = product.rows_out == nullptr ? i : product.rows_out[i];
    if (product.out_bf16 != nullptr) {
      product.out_bf16[row * product.out_stride + column] = ToBf16(values[m]);
    } else {
      product.out_float[row * product.out_stride + column] = values[m];
    }
  }
}

WeightRow RowOf(const cpu::Product& product, int64_t n) {
  const int64_t scale_bytes =
      product.scale_columns * (product.e8m0_scales ? 1 : static_cast<int64_t>(sizeof(float)));
  // FP8 scales belong to 128 weight rows, FP4 scales to one.
  const int64_t rows_per_scale = product.format == cpu::ProductFormat::kFp4 ? 1 : kBlock;
  const uint8_t* scales =
      product.scales == nullptr ? nullptr : product.scales + n / rows_per_scale * scale_bytes;
  return {product.weights + n * product.row_bytes, scales, product.e8m0_scales};
}

// kColumns weight rows from `n`.
template <class Format, int kRows, int kColumns>
void MultiplyAndWrite(const cpu::Product& product, const RowGroup& group, int64_t first_row,
                      int64_t n) {
  WeightRow rows[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    rows[c] = RowOf(product, n + c);
  }
  float values[kColumns][kRows];
  MultiplyColumns<Format, kRows, kColumns>(product, rows, group, values);
  for (int c = 0; c < kColumns; ++c) {
    Write(product, first_row, kRows, n + c, values[c]);
  }
}

// Weight rows [first, end) against activation rows [first_row, first_row + kRows).
template <class Format, int kRows>
void MultiplyGroup(const cpu::Product& product, int64_t first, int64_t end, int64_t first_row) {
  // Few rows: one sequential stream of weights is fastest. Many: their loads are the limit.
  constexpr int kColumns = kRows >= 4 ? 2 : 1;
  RowGroup group;
  for (int m = 0; m < kRows; ++m) {
    const int64_t i = first_row + m;
    const int64_t row = product.rows_in == nullptr ? i : product.rows_in[i];
    group.x[m] = product.x + row * product.x_stride;
    group.scales[m] = Format::kQuantized ? product.x_scales + row * product.scale_stride : nullptr;
  }
  int64_t n = first;
  for (; n + kColumns <= end; n += kColumns) {
    MultiplyAndWrite<Format, kRows, kColumns>(product, group, first_row, n);
  }
  for (; n < end; ++n) {
    MultiplyAndWrite<Format, kRows, 1>(product, group, first_row, n);
  }
}

template <class Format>
void MultiplyTiles(const cpu::Product& product, int64_t first, int64_t end) {
  const int64_t fitting = kTileBytes / (product.row_bytes + 1);
  const int64_t tile = fitting < 8 ? 8 : fitting;
  for (int64_t n = first; n < end; n += tile) {
    const int64_t tile_end = n + tile < end ? n + tile : end;
    int64_t row = 0;
    for (; row + 16 <= product.t; row += 16) {
      MultiplyGroup<Format, 16>(product, n, tile_end, row);
    }
    if (row + 8 <= product.t) {
      MultiplyGroup<Format, 8>(product, n, tile_end, row);
      row += 8;
    }
    if (row + 4 <= product.t) {
      MultiplyGroup<Format, 4>(product, n, tile_end, row);
      row += 4;
    }
    if (row + 2 <= product.t) {
      MultiplyGroup<Format, 2>(product, n, tile_end, row);
      row += 2;
    }
    if (row < product.t) {
      MultiplyGroup<Format, 1>(product, n, tile_end, row);
    }
  }
}

}  // namespace

void MultiplyRows(const cpu::Product& product, int64_t first, int64_t end) {
  first += product.first_row;
  end += product.first_row;
  switch (product.format) {
    case cpu::ProductFormat::kF32:
      return MultiplyTiles<Plain>(product, first, end);
    case cpu::ProductFormat::kBf16:
      return MultiplyTiles<Bf16Pairs>(product, first, end);
    case cpu::ProductFormat::kFp8:
      return product.e8m0_scales ? MultiplyTiles<Fp8>(product, first, end)
                                 : MultiplyTiles<Fp8WholeBlocks>(product, first, end);
    case cpu::ProductFormat::kFp8AsBf16:
      return MultiplyTiles<Fp8AsBf16>(product, first, end);
    case cpu::ProductFormat::kFp4:
      return MultiplyTiles<Fp4>(product, first, end);
  }
}

}  // namespace fathom::KERNEL_ISA
