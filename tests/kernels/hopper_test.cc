// Kernels that use Hopper's units rightly: the same bits in every order and at both moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulator/matrix_unit.h"
#include "tests/kernels/hopper_runs.h"

namespace fathom::testing {
namespace {

using emulator::MatrixFormat;
using emulator::MatrixNumber;

// out[i, j] = start[i, j] + the product of row i of a and row j of b, 16 numbers a sum.
std::vector<float> ExpectedProduct(const HopperCase& product, std::size_t depth,
                                   std::vector<float> out) {
  const auto taken_apart = [&](std::size_t input) {
    std::vector<MatrixNumber> all;
    for (const std::uint16_t number : product.Input<std::uint16_t>(input)) {
      all.push_back(emulator::ToMatrixNumber(FormatOf(product), number));
    }
    return all;
  };
  const std::vector<MatrixNumber> left = taken_apart(0);
  const std::vector<MatrixNumber> right = taken_apart(1);
  const std::size_t columns = right.size() / depth;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = emulator::MultiplyAdd(emulator::kSm90Mma,
                                   std::span(left).subspan(i / columns * depth, depth),
                                   std::span(right).subspan(i % columns * depth, depth), out[i]);
  }
  return out;
}

using Hopper = HopperRuns;
INSTANTIATE_TEST_SUITE_P(Runs, Hopper, EveryHopperRun());

TEST_P(Hopper, MultipliesTilesThatCopiesBring) {
  for (const MatrixFormat format : {MatrixFormat::kF16, MatrixFormat::kBf16}) {
    const HopperCase product = TiledProductCase(format);
    EXPECT_EQ(NumbersOf<float>(product),
              ExpectedProduct(product, kTiledDepth, std::vector<float>(64 * 64)));
  }
}

TEST_P(Hopper, MultipliesRegistersAndTilesOfThreads) {
  for (const HopperCase& product : RegisterProductCases()) {
    const std::vector<float> found = NumbersOf<float>(product);
    EXPECT_EQ(found, ExpectedProduct(product, 32, std::vector<float>(found.size())))
        << product.name;
  }
}

TEST_P(Hopper, MultipliesByAWarp) {
  for (const MatrixFormat format : {MatrixFormat::kF16, MatrixFormat::kBf16}) {
    const HopperCase by_columns = WarpProductCase(format, true);
    std::vector<float> start(16 * 8);
    std::iota(start.begin(), start.end(), -60.0f);
    const std::vector<float> expected = ExpectedProduct(by_columns, 16, start);
    const auto a = by_columns.Input<std::uint16_t>(0);
    for (const HopperCase& product : {by_columns, WarpProductCase(format, false)}) {
      const std::vector<float> found = NumbersOf<float>(product);
      EXPECT_THAT(std::span(found).first(start.size()), ::testing::ElementsAreArray(expected));
      // The matrices of A, transposed: thread l has numbers 2 (l % 4) and the next of column l / 4.
      for (std::size_t i = 0; i < 128; ++i) {
        const std::size_t lane = i / 4;
        const std::size_t row = lane % 4 * 2 + i % 2 * 8;
        const std::size_t column = lane / 4 + i / 2 % 2 * 8;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(found[128 + i]),
                  static_cast<std::uint32_t>(a[row * 16 + column]) |
                      static_cast<std::uint32_t>(a[(row + 1) * 16 + column]) << 16);
      }
    }
  }
}

TEST_P(Hopper, SumsOverTheBlocksOfACluster) {
  const HopperCase one = ClusterSumCase();
  const auto x = one.Input<float>(0);
  const std::vector<float> found = NumbersOf<float>(one);
  ASSERT_EQ(found.size(), kSumBlocks);
  for (std::size_t block = 0; block < kSumBlocks; ++block) {
    const auto first =
        x.begin() + static_cast<std::ptrdiff_t>(block / kSumCluster * kSumCluster * 64);
    EXPECT_EQ(found[block], std::accumulate(first, first + kSumCluster * 64, 0.0f));
  }
}

TEST_P(Hopper, TellsItselfNumbers) {
  const std::vector<std::int32_t> found = NumbersOf<std::int32_t>(PeerSumCase());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], 1000 + 63 - static_cast<std::int32_t>(i % 64));
  }
}

TEST_P(Hopper, MovesRegistersBetweenWarpgroups) {
  EXPECT_THAT(NumbersOf<std::int32_t>(MoveRegistersCase(true)), ::testing::Each(1));
  emulator::BlockRunner runner = MakeRunner();
  EXPECT_THAT(RunEmulated(MoveRegistersCase(false), runner).error().message,
              ::testing::HasSubstr("waits at TakeRegisters (hopper_meetings.cu:"));
}

TEST_P(Hopper, CopiesTilesWithZerosAroundTheMatrix) {
  for (const TileCopyCase& copy : TileCopyCases()) {
    const HopperCase one = MakeTileCopyCase(copy);
    const auto matrix = one.Input<std::uint16_t>(0);
    const auto found = NumbersOf<std::uint16_t>(one);
    const std::int64_t columns = copy.TileColumns();
    for (std::int64_t i = 0; i < kTileRows * columns; ++i) {
      const std::int64_t r = i / columns;
      const std::int64_t c = i % columns;
      const bool inside = copy.row + r >= 0 && copy.row + r < kMatrixRows && copy.column + c >= 0 &&
                          copy.column + c < kMatrixColumns;
      const std::int64_t from = (copy.row + r) * kMatrixRowBytes / 2 + copy.column + c;
      const int expected = inside ? matrix[static_cast<std::size_t>(from)] : 0;
      // Piece p of line r of 128 bytes lies at piece p ^ (r % 8).
      const std::int64_t at = copy.swizzled ? r * 64 + ((c / 8) ^ (r % 8)) * 8 + c % 8 : i;
      ASSERT_EQ(found[static_cast<std::size_t>(at)], expected) << one.name << " " << i;
    }
  }
}

}  // namespace
}  // namespace fathom::testing
