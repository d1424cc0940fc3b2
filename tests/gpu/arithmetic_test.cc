// Runs the arithmetic probe with the model of the arithmetic in the device's place.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/gpu/arithmetic/cases.h"

namespace fathom::probe {
namespace {

using emulator::MatrixFormat;

std::vector<std::uint32_t> SumsOfModel(MatrixFormat format, const Cases& cases) {
  std::vector<std::uint32_t> d;
  for (std::int64_t i = 0; i < cases.n; ++i) {
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        d.push_back(std::bit_cast<std::uint32_t>(
            emulator::MultiplyAdd(emulator::kSm90Mma, cases.Row(format, i, row),
                                  cases.Column(format, i, column), cases.c[d.size()])));
      }
    }
  }
  return d;
}

class ArithmeticCases : public ::testing::TestWithParam<MatrixFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, ArithmeticCases,
                         ::testing::Values(MatrixFormat::kF16, MatrixFormat::kBf16,
                                           MatrixFormat::kE4m3));

TEST_P(ArithmeticCases, MoveAndSwapKeepTheProducts) {
  constexpr std::int64_t kCases = 12;  // every kind twice
  const Cases cases = MakeCases(GetParam(), kCases, 1);
  const std::vector<std::uint32_t> d = SumsOfModel(GetParam(), cases);
  const std::vector<std::uint32_t> moved = SumsOfModel(GetParam(), Moved(cases));
  const std::vector<std::uint32_t> swapped = SumsOfModel(GetParam(), Swapped(cases));
  const auto at = [](std::int64_t i, int row, int column) {
    return static_cast<std::size_t>(SumAt(i, row, column));
  };
  std::int64_t n_finite = 0;
  for (std::int64_t i = 0; i < kCases; ++i) {
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const std::uint32_t bits = d[at(i, row, column)];
        n_finite += (bits & 0x7F800000u) != 0x7F800000u && (bits & 0x7FFFFFFFu) != 0 ? 1 : 0;
        EXPECT_EQ(moved[at(i, (row + kRowMove) % kRows, (column + kColumnMove) % kColumns)], bits);
        if (row < kColumns) {
          EXPECT_EQ(swapped[at(i, column, row)], bits);
        }
      }
    }
  }
  EXPECT_GT(n_finite, std::ssize(d) * 3 / 4);  // most say something about sums
}

}  // namespace
}  // namespace fathom::probe
