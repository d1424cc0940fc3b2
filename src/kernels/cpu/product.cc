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

template <class Format, int kRows>
using Sums = F32[kRows][kParts][Format::kAccumulators];

// Adds one block of a weight row, times kRows rows of activations.
template <class Format, int kRows>
[[gnu::always_inline]] inline void AddBlock(const WeightRow& row, int64_t block,
                                            const RowGroup& group, int64_t x_block,
                                            Sums<Format, kRows>& sums) {
  for (int part = 0; part < kParts; ++part) {
    typename Format::Block weights;
    Format::Expand(row, block, part, weights);
    for (int m = 0; m < kRows; ++m) {
      Format::Accumulate(weights, group.x[m] + x_block * kBlock + part * kLanes,
                         Format::kQuantized ? group.scales[m][x_block] : 0.0f, sums[m][part]);
    }
  }
}

// Blocks [first, end) of one weight row.
template <class Format, int kRows>
[[gnu::always_inline]] inline void AddBlocks(const WeightRow& row, const RowGroup& group,
                                             int64_t first, int64_t end,
                                             Sums<Format, kRows>& sums) {
  for (int64_t block = first; block < end; ++block) {
    const uint8_t* ahead = row.bytes + block * Format::kBlockBytes + kPrefetchBytes;
    for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
      __builtin_prefetch(ahead + line);
    }
    AddBlock<Format, kRows>(row, block, group, block, sums);
  }
}

// The columns behind the last whole block, as a block filled up with zeros. The activations there
// are -0, and fma(0, -0, a) is a.
template <class Format, int kRows>
void AddRest(const WeightRow& row, const RowGroup& group, int64_t k, Sums<Format, kRows>& sums) {
  uint8_t padded[Format::kBlockBytes] = {};
  const int64_t block = k / kBlock;
  __builtin_memcpy(padded, row.bytes + block * Format::kBlockBytes,
                   static_cast<size_t>(k % kBlock * Format::kBlockBytes / kBlock));
  AddBlock<Format, kRows>({padded, nullptr, true}, 0, group, block, sums);
}

// out[m] = the product of one weight row with activation row m.
template <class Format, int kRows>
void MultiplyRow(const cpu::Product& product, const WeightRow& row, const RowGroup& group,
                 float* out) {
  const int64_t blocks = product.k / kBlock;
  float parts[kMaxParts][kRows];
  for (int p = 0; p < product.k_parts; ++p) {
    Sums<Format, kRows> sums;
    for (auto& lanes : sums) {
      for (auto& part : lanes) {
        for (F32& accumulator : part) {
          accumulator = Zero();
        }
      }
    }
    AddBlocks<Format, kRows>(row, group, blocks * p / product.k_parts,
                             blocks * (p + 1) / product.k_parts, sums);
    if constexpr (!Format::kQuantized) {
      if (product.k % kBlock != 0) {
        AddRest<Format, kRows>(row, group, product.k, sums);
      }
    }
    for (int m = 0; m < kRows; ++m) {
      parts[p][m] = Format::Finish(sums[m]);
    }
  }
  for (int half = product.k_parts / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) {
      for (int m = 0; m < kRows; ++m) {
        parts[p][m] = parts[p][m] + parts[p + half][m];
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    out[m] = parts[0][m];
  }
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

// Weight rows [first, end) against activation rows [first_row, first_row + kRows).
template <class Format, int kRows>
void MultiplyGroup(const cpu::Product& product, int64_t first, int64_t end, int64_t first_row) {
  RowGroup group;
  for (int m = 0; m < kRows; ++m) {
    const int64_t i = first_row + m;
    const int64_t row = product.rows_in == nullptr ? i : product.rows_in[i];
    group.x[m] = product.x + row * product.x_stride;
    group.scales[m] = Format::kQuantized ? product.x_scales + row * product.scale_stride : nullptr;
  }
  const int64_t scale_bytes =
      product.scale_columns * (product.e8m0_scales ? 1 : static_cast<int64_t>(sizeof(float)));
  // FP8 scales belong to 128 weight rows, FP4 scales to one.
  const int64_t rows_per_scale = product.format == cpu::ProductFormat::kFp4 ? 1 : kBlock;
  for (int64_t n = first; n < end; ++n) {
    const uint8_t* scales =
        product.scales == nullptr ? nullptr : product.scales + n / rows_per_scale * scale_bytes;
    const WeightRow row = {product.weights + n * product.row_bytes, scales, product.e8m0_scales};
    float values[kRows];
    MultiplyRow<Format, kRows>(product, row, group, values);
    Write(product, first_row, kRows, n, values);
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
      return MultiplyTiles<Fp8>(product, first, end);
    case cpu::ProductFormat::kFp8AsBf16:
      return MultiplyTiles<Fp8AsBf16>(product, first, end);
    case cpu::ProductFormat::kFp4:
      return MultiplyTiles<Fp4>(product, first, end);
  }
}

}  // namespace fathom::KERNEL_ISA
