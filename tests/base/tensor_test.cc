#include "base/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace fathom {
namespace {

TEST(Tensor, DTypeNamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
    EXPECT_GE(ElementBytes(dtype), 1);
  }
  EXPECT_EQ(DTypeFromName("F8_E8M0"), DType::kF8E8M0);
  EXPECT_EQ(DTypeFromName("FP4"), std::nullopt);
}

TEST(Tensor, ElementCountDetectsOverflow) {
  EXPECT_EQ(ElementCount(std::array<std::int64_t, 2>{24, 16384}), 24 * 16384);
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount(std::array<std::int64_t, 3>{0, 1LL << 40, 1LL << 40}), 0);
  EXPECT_EQ(ElementCount(std::array<std::int64_t, 2>{1LL << 40, 1LL << 40}), std::nullopt);
}

TEST(Tensor, BytesOfSmallElements) {
  const std::array<std::int64_t, 2> shape = {3, 4};
  EXPECT_EQ(TensorBytes(DType::kF4, shape), 6);
  EXPECT_EQ(TensorBytes(DType::kF6E2M3, shape), 9);
  EXPECT_EQ(TensorBytes(DType::kC64, shape), 96);
  EXPECT_EQ(TensorBytes(DType::kF4, std::array<std::int64_t, 2>{3, 5}), std::nullopt);
  EXPECT_EQ(TensorBytes(DType::kF4, std::array<std::int64_t, 1>{0}), 0);
  EXPECT_EQ(TensorBytes(DType::kU8, std::array<std::int64_t, 1>{1LL << 62}), std::nullopt);
}

TEST(Tensor, MatrixRows) {
  std::array<int, 6> numbers = {0, 1, 2, 3, 4, 5};
  const Matrix<int> matrix = {numbers.data(), 3, 2};
  EXPECT_EQ(matrix.Row(2)[1], 5);
  EXPECT_EQ(matrix.Rows(1, 2).RowSpan(0)[0], 2);
}

}  // namespace
}  // namespace fathom
