// Matrix products (docs/numerics.md 2).
#include "kernels/gpu/device/linear.h"

#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/product.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/row_product.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// The work of a group: kProductTokens rows of x from first_row, row i of w.
struct LinearItem {
  int64_t first_row = 0;
  int64_t i = 0;
  bool is_real = true;
};

// Groups of a block have neighbouring rows of w.
GPU_DEVICE LinearItem MakeItem(const LinearArguments& a) {
  const int64_t rows_of_block = BlockThreads() / kGroupThreads;
  const int64_t tiles = TileCount(a.w.n, rows_of_block);
  const int64_t i = BlockX() % tiles * rows_of_block + ThreadX() / kGroupThreads;
  return {BlockX() / tiles * kProductTokens, i < a.w.n ? i : a.w.n - 1, i < a.w.n};
}

GPU_DEVICE void Store(const LinearArguments& a, const LinearItem& item, const float* sums) {
  GPU_UNROLL
  for (int t = 0; t < kProductTokens; ++t) {
    const int64_t row = item.first_row + t;
    if (GroupLane() == 0 && item.is_real && row < a.n_rows) {
      if (a.exact.data != nullptr) {
        a.exact.Row(row)[item.i] = sums[t];
      } else {
        a.out.Row(row)[item.i] = ToBf16(sums[t]);
      }
    }
  }
}

template <class Format>
GPU_DEVICE void Multiply(const LinearArguments& a, const LinearItem& item,
                         const typename Format::Input& x) {
  float sums[kProductTokens] = {};
  if (a.n_rows == 1) {
    Products<Format, 1>(x, 0, a.w, item.i, sums);
  } else {
    Products<Format, kProductTokens>(x, item.first_row, a.w, item.i, sums);
  }
  Store(a, item, sums);
}

// Returns the columns of x that belong to the group of the item's row of w.
GPU_DEVICE PlainRows MakePlainRows(const LinearArguments& a, const LinearItem& item) {
  return {a.x, item.i / (a.w.n / a.groups) * a.w.k};
}

// Stores the rows' columns 8 g ... 8 g + 7 of a block of 128, where g is the lane of the group.
GPU_DEVICE void StoreCodes(const QuantizeRowsArguments& a, int64_t block,
                           const uint8_t (&codes)[8]) {
  const int lane = GroupLane();
  if (a.codes != nullptr) {
    GPU_UNROLL
    for (int j = 0; j < 8; ++j) {
      a.codes[block * kFp8Block + 8 * lane + j] = codes[j];
    }
  }
  if (a.numbers != nullptr) {
    FourFloats* const vectors = a.numbers + block * kNumberVectors * kQuadThreads;
    GPU_UNROLL
    for (int four = 0; four < 2; ++four) {
      const int half = lane / 8;
      const int of_lane = 2 * lane % 16 + four;
      FourFloats numbers;
      GPU_UNROLL
      for (int j = 0; j < 4; ++j) {
        numbers.numbers[j] = E4m3ToFloat(codes[4 * four + j]) * E4m3Factor();
      }
      vectors[(4 * half + of_lane % kQuadLanes) * kQuadThreads + of_lane / kQuadLanes] = numbers;
    }
  }
  if (a.digits != nullptr) {
    FourWords* const vectors = a.digits + block * kDigitVectors * kQuadThreads + lane / kQuadLanes;
    const LaneDigits digits = MakeDigits(codes);
    GPU_UNROLL
    for (int i = 0; i < kDigitWords; ++i) {
      const int word = lane % kQuadLanes * kDigitWords + i;
      vectors[word / 4 * kQuadThreads].words[word % 4] = digits.words[i];
    }
  }
}

template <class Format, int kTokens>
GPU_DEVICE void MultiplyFew(const FewRowsArguments& a) {
  const auto row_of = [&](int t) { return t < a.x.rows ? t : a.x.rows - 1; };
  RowProduct<Format, kTokens>::Multiply(a.x, row_of, {a.w, BlockX() << a.shift, a.shift},
                                        [&](int t, int i, float sum) {
                                          const int64_t column = (BlockX() << a.shift) + i;
                                          if (t >= a.x.rows || column >= a.w.n) return;
                                          if (a.exact.data != nullptr) {
                                            a.exact.Row(t)[column] = sum;
                                          } else {
                                            a.out.Row(t)[column] = ToBf16(sum);
                                          }
                                        });
}

}  // namespace

GPU_KERNEL(QuantizeRows, QuantizeRowsArguments a) {
  constexpr int kEach = kFp8Block / kGroupThreads;  // numbers per thread
  const GroupItem item = ItemOfGroup(a.scales.rows * a.scales.cols);
  const int64_t first = item.index * kFp8Block + kEach * GroupLane();
  int32_t largest = 0;
  int32_t has_nan = 0;
  for (int64_t i = first; i < first + kEach; ++i) {
    const int32_t magnitude = Magnitude(a.x.data[i]);
    largest = magnitude > largest ? magnitude : largest;
    has_nan = (a.x.data[i].bits & 0x7FFF) > 0x7F80 ? 1 : has_nan;
  }
  const float scale = E4m3Scale(LargestOfGroup(largest));
  has_nan = LargestOfGroup(has_nan);
  if (!item.is_real) return;
  const float inverse = Div(1.0f, scale);
  uint8_t codes[kEach];
  GPU_UNROLL
  for (int j = 0; j < kEach; ++j) {
    codes[j] = E4m3Code(a.x.data[first + j], inverse);
  }
  StoreCodes(a, item.index, codes);
  if (GroupLane() == 0) {
    a.scales.data[item.index] = has_nan != 0 ? __builtin_bit_cast(float, 0x7FC00000u) : scale;
  }
}

GPU_RESIDENT_KERNEL(LinearFp8Row, 4, FewRowsArguments a) { MultiplyFew<Fp8Rows, 1>(a); }
GPU_RESIDENT_KERNEL(LinearFp8Rows2, 2, FewRowsArguments a) { MultiplyFew<Fp8Rows, 2>(a); }
GPU_RESIDENT_KERNEL(LinearFp8Rows4, 1, FewRowsArguments a) { MultiplyFew<Fp8Rows, 4>(a); }
GPU_RESIDENT_KERNEL(LinearFp8Rows8, 1, FewRowsArguments a) { MultiplyFew<Fp8Rows, 8>(a); }
GPU_RESIDENT_KERNEL(LinearFp4Row, 4, FewRowsArguments a) { MultiplyFew<Fp4Rows, 1>(a); }
GPU_RESIDENT_KERNEL(LinearFp4Rows2, 2, FewRowsArguments a) { MultiplyFew<Fp4Rows, 2>(a); }
GPU_RESIDENT_KERNEL(LinearFp4Rows4, 1, FewRowsArguments a) { MultiplyFew<Fp4Rows, 4>(a); }
GPU_RESIDENT_KERNEL(LinearFp4Rows8, 1, FewRowsArguments a) { MultiplyFew<Fp4Rows, 8>(a); }

GPU_KERNEL(LinearFp8, LinearArguments a) {
  Multiply<Fp8Product>(a, MakeItem(a), {a.codes, a.scales});
}
GPU_KERNEL(LinearFp4, LinearArguments a) {
  Multiply<Fp4Product>(a, MakeItem(a), {a.codes, a.scales});
}
GPU_KERNEL(LinearPlain, LinearArguments a) {
  const LinearItem item = MakeItem(a);
  Multiply<PlainProduct>(a, item, MakePlainRows(a, item));
}
GPU_KERNEL(LinearByBlocks, LinearArguments a) {
  const LinearItem item = MakeItem(a);
  Multiply<BlockProduct>(a, item, MakePlainRows(a, item));
}

}  // namespace fathom::kernels::gpu
