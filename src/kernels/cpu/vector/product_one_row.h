// Products of FP4 and FP8 weights by one row of activations, as in decoding, where registers are
// few: the sums of product.cc in the same order, with fewer instructions between the blocks.
//
// A thread reads kGroup streams of weights, one block of each in turn (MultiplyFewRows in
// product.cc says why). There must be few instructions between rows of weights, because the
// processor does not look far enough ahead to begin with the next row meanwhile: addresses are
// advanced instead of computed, the factors of FP8's blocks are made for 128 rows together, and the
// sums of some rows wait in the first-level cache until they are added over the lanes and written
// together.
#pragma once

#include "kernels/cpu/vector/product_formats.h"
#include "kernels/cpu/vector/product_integers.h"
#include "kernels/cpu/vector/product_rows.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

// The number of rows, or parts of rows, whose sums wait.
constexpr int64_t kWaitingSums = 16;
static_assert(kWaitingSums >= kMaxParts);

// The longest row, in blocks.
constexpr int64_t kMostStreamBlocks = 128;

// The addresses of the next blocks of the streams and of their scales.
struct Streams {
  const uint8_t* bytes[kGroup];
  const uint8_t* scales[kGroup];
};

template <BlockFormat Format>
using StreamSums = F32[kGroup][Format::kSums];

// The row of activations from some block on: operands, and scales (FP4) or factors (FP8).
struct StreamInput {
  const float* x;
  const float* scales;
  const float (*factors)[kGroup];
};

// Adds one block of all streams.
template <BlockFormat Format>
[[gnu::always_inline]] inline void AddStreams(const Streams& streams, const StreamInput& input,
                                              StreamSums<Format>& sums) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    typename Format::OneByOne operands[kGroup];
    F32* lanes[1][kGroup];
    for (int c = 0; c < kGroup; ++c) {
      Format::Open({streams.bytes[c], streams.scales[c], true}, 0, part, operands[c]);
      lanes[0][c] = &sums[c][part];
    }
    const auto weight = [&](int j, int c) __attribute__((always_inline)) {
      return operands[c].Next(j);
    };
    const float* const x[1] = {input.x + Format::XOffset(part)};
    if constexpr (Format::kRowsShareScales) {
      F32 chains[1][kGroup];
      AddChains<Format::kXStride>(weight, 0, Format::kOperands, x, /*start=*/true, chains);
      for (int c = 0; c < kGroup; ++c) {
        sums[c][part] = MulAdd(chains[0][c], Set(input.factors[0][c]), sums[c][part]);
      }
    } else {
      const float* const marks[1] = {input.scales};
      Format::Add(
          weight, [&](int c) { return operands[c].ScaleValue(); }, x, marks, part, lanes);
    }
  }
}

// Sets sums[p] to the sums of the p-th part of `blocks` blocks.
template <BlockFormat Format>
[[gnu::noinline]] void SumStreams(const Streams& start, int parts, int64_t blocks,
                                  StreamInput input, StreamSums<Format>* sums) {
  Streams streams = start;
  for (int p = 0; p < parts; ++p) {
    StreamSums<Format>& to = sums[p];
    for (auto& sum : to) {
      for (F32& lanes : sum) {
        lanes = Zero();
      }
    }
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
        for (const uint8_t* bytes : streams.bytes) {
          PrefetchAhead<!KeepsSums<Format>>(bytes + line);
        }
      }
      AddStreams<Format>(streams, input, to);
      for (int c = 0; c < kGroup; ++c) {
        streams.bytes[c] += Format::kBlockBytes;
        streams.scales[c] += Format::kScaleBytes;
      }
      input.x += kBlockFloats<Format>;
      ++input.scales;
      ++input.factors;
    }
  }
}

// Multiplies one row of activations; lives as long as the call. `product` must outlive it.
template <BlockFormat Format>
class OneRow {
 public:
  explicit OneRow(const cpu::Product& product)
      : product_(product),
        row_(RowOfActivations<Format>(product, 0)),
        blocks_(product.k / kBlock) {}

  static bool Takes(const cpu::Product& product) {
    return product.t == 1 && product.k / kBlock <= kMostStreamBlocks;
  }

  // Multiplies weight rows [first, end).
  void Multiply(int64_t first, int64_t end) {
    const int64_t quarter = (end - first) / kGroup;
    MultiplyStreams(first, first + quarter, quarter, kGroup);
    MultiplyStreams(first + quarter * kGroup, end, 0, 1);
  }

 private:
  // Multiplies weight rows [first, end) and the rows c * stride further on, c < streams. Streams
  // after the last one repeat a row.
  void MultiplyStreams(int64_t first, int64_t end, int64_t stride, int streams) {
    const int64_t most = kWaitingSums / product_.k_parts;
    for (int64_t i = first; i < end;) {
      int64_t count = end - i < most ? end - i : most;
      for (int c = 0; c < streams && Format::kRowsShareScales; ++c) {
        const int64_t left = kBlock - (i + c * stride) % kBlock;  // rows with this scale
        count = left < count ? left : count;
      }
      MultiplyRows(i, static_cast<int>(count), stride, streams);
      i += count;
    }
  }

  // MultiplyStreams for rows whose sums wait together.
  void MultiplyRows(int64_t first, int count, int64_t stride, int n_streams) {
    Streams streams;
    for (int c = 0; c < kGroup; ++c) {
      const WeightRow weights = WeightRowAt(product_, first + c * stride);
      streams.bytes[c] = weights.bytes;
      streams.scales[c] = weights.scales;
    }
    SetFactors(streams);
    const int parts = product_.k_parts;
    StreamSums<Format> sums[kWaitingSums];
    const StreamInput input = {row_.x, row_.scales, factors_};
    for (int r = 0; r < count; ++r) {
      SumStreams<Format>(streams, parts, blocks_ / parts, input, sums + r * parts);
      for (int c = 0; c < kGroup; ++c) {
        streams.bytes[c] += product_.row_bytes;
        if constexpr (!Format::kRowsShareScales) {
          streams.scales[c] += product_.scale_columns;
        }
      }
    }
    float values[kGroup][kWaitingSums];
    for (int r = 0; r < count; ++r) {
      float row[kMaxParts][kGroup];
      for (int p = 0; p < parts; ++p) {
        Format::Finish(sums[r * parts + p], row[p]);
      }
      if (parts > 1) {
        AddParts(parts, kGroup, row[0], kGroup);
      }
      for (int c = 0; c < kGroup; ++c) {
        values[c][r] = row[0][c];
      }
    }
    for (int c = 0; c < n_streams; ++c) {
      WriteValues(product_, 0, first + c * stride, values[c], count);
    }
  }

  // Makes the factors of the blocks that begin at `streams`.
  void SetFactors(const Streams& streams) {
    if constexpr (Format::kRowsShareScales) {
      bool same = true;
      for (int c = 0; c < kGroup; ++c) {
        same = same && streams.scales[c] == factored_[c];
        factored_[c] = streams.scales[c];
      }
      for (int64_t block = 0; block < blocks_ && !same; ++block) {
        for (int c = 0; c < kGroup; ++c) {
          factors_[block][c] =
              Format::Factor(FromE8m0(streams.scales[c][block]), row_.scales + block);
        }
      }
    }
  }

  const cpu::Product& product_;
  const ProductRow row_;
  const int64_t blocks_;
  const uint8_t* factored_[kGroup] = {};      // the scales of the factors in factors_
  float factors_[kMostStreamBlocks][kGroup];  // FP8: factors of blocks
};

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
