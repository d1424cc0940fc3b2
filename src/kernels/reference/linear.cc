// Matrix products (docs/numerics.md 2).
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/reference/lanes.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"

namespace fathom::kernels {
namespace {

// One row of activations quantised for FP8 or FP4 weights: the E4M3 values, and a scale per 128
// columns.
struct QuantizedRow {
  std::vector<float> values;
  std::vector<float> scales;
};

void Quantize(const Bf16* x, std::int64_t k, QuantizedRow& row) {
  row.values.clear();
  row.scales.clear();
  for (std::int64_t first = 0; first < k; first += kFp8Block) {
    std::uint8_t codes[kFp8Block];
    row.scales.push_back(QuantizeE4m3(x + first, kFp8Block, codes));
    for (const std::uint8_t code : codes) {
      row.values.push_back(E4m3ToFloat(code));
    }
  }
}

// Returns the sum over the weight's columns, computed in parts: part(first, end) is the sum of
// columns [first, end).
template <class Part>
float SumOfParts(const Weight& w, const Part& part) {
  float sums[8] = {};
  const std::int64_t width = w.k / w.k_parts;
  for (int i = 0; i < w.k_parts; ++i) {
    sums[i] = part(i * width, (i + 1) * width);
  }
  return TreeSum(sums, w.k_parts);
}

// Returns x times row i of a kFp4 weight, columns [first, end).
float Fp4Product(const QuantizedRow& x, const Weight& w, std::int64_t i, std::int64_t first,
                 std::int64_t end) {
  const auto* nibbles = reinterpret_cast<const std::uint8_t*>(w.data + i * w.RowBytes());
  const auto* scales = reinterpret_cast<const std::uint8_t*>(w.scales + i * w.ScaleColumns());
  float lane[kLanes] = {};
  for (std::int64_t block = first / kFp4Block; block < end / kFp4Block; ++block) {
    const float weight_scale = scales[block] == 0 ? 0.0f : E8m0ToFloat(scales[block]);
    const float scale =
        x.scales[static_cast<std::size_t>(block * kFp4Block / kFp8Block)] * weight_scale;
    for (std::int64_t l = 0; l < 4; ++l) {
      // Multiples of 2^-10 below 2^15: a double holds their sum exactly, so that it is rounded
      // once, below.
      double sum = 0.0;
      const std::int64_t column = block * kFp4Block + 8 * l;
      for (std::int64_t k = column; k < column + 8; ++k) {
        const int nibble = nibbles[k / 2] >> (4 * (k % 2)) & 15;
        sum += static_cast<double>(x.values[static_cast<std::size_t>(k)]) *
               static_cast<double>(E2m1ToFloat(static_cast<std::uint8_t>(nibble)));
      }
      float& a = lane[4 * (block % 4) + l];
      a = std::fma(static_cast<float>(sum), scale, a);
    }
  }
  return TreeSum(lane, kLanes);
}

// Sums x(k) * w(k) over the eight columns of lane c in the block of 128 columns from `first` on.
template <class X, class W>
float LaneChain(std::int64_t first, std::int64_t c, const X& x, const W& w) {
  float chain = 0.0f;
  for (std::int64_t j = 0; j < 8; ++j) {
    const std::int64_t k = first + 64 * (j / 4) + 4 * c + j % 4;
    chain = j == 0 ? x(k) * w(k) : std::fma(x(k), w(k), chain);
  }
  return chain;
}

// Returns x times row i of a kFp8 weight, columns [first, end).
float Fp8Product(const QuantizedRow& x, const Weight& w, std::int64_t i, std::int64_t first,
                 std::int64_t end) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(w.data + i * w.RowBytes());
  const auto a = [&](std::int64_t k) { return x.values[static_cast<std::size_t>(k)]; };
  const auto b = [&](std::int64_t k) { return E4m3ToFloat(codes[k]); };
  float lane[kLanes] = {};
  float sum = 0.0f;
  for (std::int64_t block = first / kFp8Block; block < end / kFp8Block; ++block) {
    const float scale = x.scales[static_cast<std::size_t>(block)] * w.Fp8Scale(i, block);
    float chains[kLanes];
    for (std::int64_t c = 0; c < kLanes; ++c) {
      chains[c] = LaneChain(block * kFp8Block, c, a, b);
      lane[c] = std::fma(chains[c], scale, lane[c]);
    }
    sum = sum + TreeSum(chains, kLanes) * scale;
  }
  // Multiplying by an arbitrary scale rounds once per block, by a power of two not at all.
  return w.scale_format == ScaleFormat::kF32 ? sum : TreeSum(lane, kLanes);
}

// Splits the scale of a block of FP8 weights into a power of two and a factor of magnitude 1 to 2;
// a weight is multiplied by the factor and rounded to bf16. A subnormal F32 scale counts as zero.
struct SplitScale {
  float power = 0.0f;
  float factor = 1.0f;
};

SplitScale Split(const Weight& w, std::int64_t i, std::int64_t block) {
  const float scale = w.Fp8Scale(i, block);
  if (w.scale_format == ScaleFormat::kE8m0) return {scale, 1.0f};
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  return {std::bit_cast<float>(bits & 0x7F800000u),
          std::bit_cast<float>((bits & 0x807FFFFFu) | 0x3F800000u)};
}

// Returns the number that a product by blocks uses: numbers below the limit count as zero.
float Counted(Bf16 number) {
  const float value = ToFloat(number);
  return std::fabs(value) < 0x1p-50f ? 0.0f : value;
}

// Returns x times row i of a kFp8 or kBf16 weight, columns [first, end), without quantisation of x.
// FP8 weights are bf16(e4m3 * scale).
float BlockProduct(const Bf16* x, const Weight& w, std::int64_t i, std::int64_t first,
                   std::int64_t end) {
  const std::byte* row = w.data + i * w.RowBytes();
  const auto a = [&](std::int64_t k) { return Counted(x[k]); };
  float lane[kLanes] = {};
  for (std::int64_t block = first / kFp8Block; block < end / kFp8Block; ++block) {
    for (std::int64_t c = 0; c < kLanes; ++c) {
      if (w.format == WeightFormat::kBf16) {
        lane[c] = lane[c] + LaneChain(block * kFp8Block, c, a, [&](std::int64_t k) {
                    return Counted(reinterpret_cast<const Bf16*>(row)[k]);
                  });
      } else {
        const SplitScale scale = Split(w, i, block);
        const float chain = LaneChain(block * kFp8Block, c, a, [&](std::int64_t k) {
          return RoundToBf16(E4m3ToFloat(static_cast<std::uint8_t>(row[k])) * scale.factor);
        });
        lane[c] = std::fma(chain, scale.power, lane[c]);
      }
    }
  }
  return TreeSum(lane, kLanes);
}

// Returns x times row i of a kF32 or kBf16 weight, columns [first, end).
float PlainProduct(const Bf16* x, const Weight& w, std::int64_t i, std::int64_t first,
                   std::int64_t end) {
  const std::byte* row = w.data + i * w.RowBytes();
  const auto a = [&](std::int64_t k) { return ToFloat(x[first + k]); };
  switch (w.format) {
    case WeightFormat::kF32:
      return LaneProduct(end - first, a, [&](std::int64_t k) {
        return reinterpret_cast<const float*>(row)[first + k];
      });
    case WeightFormat::kBf16:
      return LaneProduct(end - first, a, [&](std::int64_t k) {
        return ToFloat(reinterpret_cast<const Bf16*>(row)[first + k]);
      });
    case WeightFormat::kFp8:
    case WeightFormat::kFp4:
      break;
  }
  Check(false, "PlainProduct: a quantised weight");
  return 0.0f;
}

// Calls store(row, i, sum) for every element of x * w^T.
template <class Store>
void Multiply(Matrix<const Bf16> x, const Weight& w, const Store& store) {
  const bool fp4 = w.format == WeightFormat::kFp4;
  const bool quantised = fp4 || w.format == WeightFormat::kFp8;
  QuantizedRow quantized;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    if (quantised) {
      Quantize(x.Row(row), w.k, quantized);
    }
    for (std::int64_t i = 0; i < w.n; ++i) {
      store(row, i, SumOfParts(w, [&](std::int64_t first, std::int64_t end) {
              return fp4         ? Fp4Product(quantized, w, i, first, end)
                     : quantised ? Fp8Product(quantized, w, i, first, end)
                                 : PlainProduct(x.Row(row), w, i, first, end);
            }));
    }
  }
}

}  // namespace

struct ReferenceBackend::LinearOperations {
  ReferenceBackend& self;

  void Compute(const LinearOp<Bf16>& op) {
    Multiply(op.x, op.w, [&](std::int64_t row, std::int64_t i, float sum) {
      op.out.Row(row)[i] = ToBf16(sum);
    });
  }

  void Compute(const LinearOp<float>& op) {
    Multiply(op.x, op.w,
             [&](std::int64_t row, std::int64_t i, float sum) { op.out.Row(row)[i] = sum; });
  }

  void Compute(const GroupedLinearOp& op) {
    const bool by_blocks = op.w.format != WeightFormat::kF32 && op.w.k % kFp8Block == 0;
    const std::int64_t rows_per_group = op.w.n / op.groups;
    for (std::int64_t row = 0; row < op.x.rows; ++row) {
      for (std::int64_t i = 0; i < op.w.n; ++i) {
        const Bf16* in = op.x.Row(row) + i / rows_per_group * op.w.k;
        op.out.Row(row)[i] = ToBf16(SumOfParts(op.w, [&](std::int64_t first, std::int64_t end) {
          return by_blocks ? BlockProduct(in, op.w, i, first, end)
                           : PlainProduct(in, op.w, i, first, end);
        }));
      }
    }
  }
};

bool ReferenceBackend::ComputeLinear(const Operation& operation) {
  return ComputeBy(LinearOperations{*this}, operation);
}

}  // namespace fathom::kernels
