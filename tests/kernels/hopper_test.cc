// Kernels that use Hopper's units rightly: the same bits in every order and at both moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/emulator/matrix_unit.h"
#include "tests/kernels/hopper_runs.h"

namespace fathom::testing {
namespace {

using emulator::Kernel;
using emulator::MatrixFormat;
using emulator::MatrixNumber;
using emulator::TensorTile;

// Random 16-bit numbers of moderate size.
AlignedVector<std::uint16_t> RandomNumbers(MatrixFormat format, std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  AlignedVector<std::uint16_t> numbers(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    numbers[i] = static_cast<std::uint16_t>(
        format == MatrixFormat::kF16 ? (bits & 0x8FFF) | 0x3000 : (bits & 0x80FF) | 0x3F00);
  }
  return numbers;
}

// out[i, j] = start[i, j] + the product of row i of a and row j of b, 16 numbers a sum.
std::vector<float> ExpectedProduct(MatrixFormat format, AlignedVector<std::uint16_t>& a,
                                   AlignedVector<std::uint16_t>& b, std::size_t depth,
                                   std::vector<float> out) {
  const auto taken_apart = [&](AlignedVector<std::uint16_t>& numbers) {
    std::vector<MatrixNumber> all;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      all.push_back(emulator::ToMatrixNumber(format, numbers[i]));
    }
    return all;
  };
  const std::vector<MatrixNumber> left = taken_apart(a);
  const std::vector<MatrixNumber> right = taken_apart(b);
  const std::size_t columns = b.size() / depth;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = emulator::MultiplyAdd(emulator::kSm90Mma,
                                   std::span(left).subspan(i / columns * depth, depth),
                                   std::span(right).subspan(i % columns * depth, depth), out[i]);
  }
  return out;
}

TensorMap SwizzledMap(AlignedVector<std::uint16_t>& numbers, std::int64_t columns) {
  return emulator::ToTensorMap({.data = reinterpret_cast<const std::byte*>(numbers.data()),
                                .rows = static_cast<std::int64_t>(numbers.size()) / columns,
                                .columns = columns,
                                .row_bytes = 2 * columns,
                                .element_bytes = 2,
                                .tile_rows = 64,
                                .tile_columns = 64,
                                .swizzled = 1});
}

using Hopper = HopperRuns;
INSTANTIATE_TEST_SUITE_P(Runs, Hopper, EveryHopperRun());

TEST_P(Hopper, MultipliesTilesThatCopiesBring) {
  constexpr std::int64_t kDepth = 320;  // five tiles through two stages
  const std::pair<MatrixFormat, Kernel> kinds[] = {
      {MatrixFormat::kF16, fathom_emulated_TiledProductF16()},
      {MatrixFormat::kBf16, fathom_emulated_TiledProductBf16()}};
  for (const auto& [format, kernel] : kinds) {
    AlignedVector<std::uint16_t> a = RandomNumbers(format, 64 * kDepth, 1);
    AlignedVector<std::uint16_t> b = RandomNumbers(format, 64 * kDepth, 2);
    std::vector<float> found(64 * 64, -1.0f);
    const TiledProductArguments arguments = {SwizzledMap(a, kDepth), SwizzledMap(b, kDepth), kDepth,
                                             found.data()};
    ASSERT_EQ(RunForError(kernel, {.threads = 256, .shared_bytes = kTiledProductShared}, arguments,
                          /*starts_early=*/true),
              "");
    EXPECT_EQ(found, ExpectedProduct(format, a, b, kDepth, std::vector<float>(64 * 64)));
  }
}

TEST_P(Hopper, MultipliesRegistersAndTilesOfThreads) {
  const std::tuple<MatrixFormat, std::size_t, Kernel> kinds[] = {
      {MatrixFormat::kF16, 64, fathom_emulated_RegisterProduct64()},
      {MatrixFormat::kBf16, 128, fathom_emulated_RegisterProduct128()},
      {MatrixFormat::kF16, 256, fathom_emulated_RegisterProduct256()},
      {MatrixFormat::kF16, 128, fathom_emulated_SharedProduct128()},
      {MatrixFormat::kBf16, 256, fathom_emulated_SharedProduct256()}};
  for (const auto& [format, columns, kernel] : kinds) {
    AlignedVector<std::uint16_t> a = RandomNumbers(format, 64 * 32, 3);
    AlignedVector<std::uint16_t> b = RandomNumbers(format, columns * 32, 4);
    std::vector<float> found(64 * columns);
    const RegisterProductArguments arguments = {a.data(), b.data(), found.data()};
    ASSERT_EQ(
        RunForError(kernel, {.threads = 128, .shared_bytes = kRegisterProductShared}, arguments),
        "");
    EXPECT_EQ(found, ExpectedProduct(format, a, b, 32, std::vector<float>(64 * columns)));
  }
}

TEST_P(Hopper, MultipliesByAWarp) {
  const std::pair<MatrixFormat, Kernel> kinds[] = {
      {MatrixFormat::kF16, fathom_emulated_WarpProductF16()},
      {MatrixFormat::kBf16, fathom_emulated_WarpProductBf16()}};
  for (const auto& [format, kernel] : kinds) {
    AlignedVector<std::uint16_t> a = RandomNumbers(format, 16 * 16, 5);
    AlignedVector<std::uint16_t> columns = RandomNumbers(format, 8 * 16, 6);
    AlignedVector<std::uint16_t> rows(16 * 8);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = columns[i % 8 * 16 + i / 8];
    }
    std::vector<float> start(16 * 8);
    std::iota(start.begin(), start.end(), -60.0f);
    const std::vector<float> expected = ExpectedProduct(format, a, columns, 16, start);
    for (const bool has_columns : {false, true}) {
      std::vector<float> found = start;
      found.resize(2 * start.size());
      const WarpProductArguments arguments = {a.data(), (has_columns ? columns : rows).data(),
                                              has_columns, found.data()};
      ASSERT_EQ(RunForError(kernel, {.threads = 32, .shared_bytes = kWarpProductShared}, arguments),
                "");
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
  constexpr std::size_t kBlocks = 3 * kSumCluster;
  std::vector<float> x(kBlocks * 64);
  std::iota(x.begin(), x.end(), 1.0f);
  std::vector<float> found(kBlocks);
  const ClusterSumArguments arguments = {x.data(), found.data()};
  ASSERT_EQ(
      RunForError(fathom_emulated_ClusterSum(),
                  {.x = kBlocks, .threads = 64, .shared_bytes = kClusterSumShared}, arguments),
      "");
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const auto first =
        x.begin() + static_cast<std::ptrdiff_t>(block / kSumCluster * kSumCluster * 64);
    EXPECT_EQ(found[block], std::accumulate(first, first + kSumCluster * 64, 0.0f));
  }
}

TEST_P(Hopper, MovesRegistersBetweenWarpgroups) {
  std::vector<std::int32_t> found(384);
  ASSERT_EQ(RunForError(fathom_emulated_MoveRegisters(), {.threads = 384},
                        MoveRegistersArguments{true, found.data()}),
            "");
  EXPECT_THAT(found, ::testing::Each(1));
  EXPECT_THAT(RunForError(fathom_emulated_MoveRegisters(), {.threads = 384},
                          MoveRegistersArguments{false, found.data()}),
              ::testing::HasSubstr("waits at TakeRegisters (hopper_meetings.cu:"));
}

// A tile at any place of a matrix, also outside of it.
TEST_P(Hopper, CopiesTilesWithZerosAroundTheMatrix) {
  constexpr std::int64_t kRows = 11;
  constexpr std::int64_t kColumns = 100;
  constexpr std::int64_t kRowBytes = 208;
  AlignedVector<std::uint16_t> matrix(kRows * kRowBytes / 2);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = static_cast<std::uint16_t>(i + 1);
  }
  for (const bool swizzled : {false, true}) {
    const std::int64_t columns = swizzled ? 64 : 72;
    TensorTile tile = {.data = reinterpret_cast<const std::byte*>(matrix.data()),
                       .rows = kRows,
                       .columns = kColumns,
                       .row_bytes = kRowBytes,
                       .element_bytes = 2,
                       .tile_rows = 9,
                       .tile_columns = columns,
                       .swizzled = swizzled};
    for (const auto& [column, row] : {std::pair{0, 0}, {40, 5}, {-3, -2}, {97, 10}, {-70, 0}}) {
      const auto bytes = static_cast<std::int32_t>(9 * columns * 2);
      std::vector<unsigned char> found(static_cast<std::size_t>(bytes));
      const TileCopyArguments arguments = {emulator::ToTensorMap(tile), column, row, bytes,
                                           found.data()};
      ASSERT_EQ(RunForError(fathom_emulated_TileCopy(),
                            {.threads = 64, .shared_bytes = kTileCopyShared}, arguments),
                "");
      for (std::int64_t i = 0; i < 9 * columns; ++i) {
        const std::int64_t r = i / columns;
        const std::int64_t c = i % columns;
        const bool inside =
            row + r >= 0 && row + r < kRows && column + c >= 0 && column + c < kColumns;
        const int expected =
            inside ? matrix[static_cast<std::size_t>((row + r) * kRowBytes / 2 + column + c)] : 0;
        // Piece p of line r of 128 bytes lies at piece p ^ (r % 8).
        const std::int64_t at = swizzled ? r * 128 + ((c / 8) ^ (r % 8)) * 16 + c % 8 * 2 : 2 * i;
        const auto low = static_cast<std::size_t>(at);
        ASSERT_EQ(found[low] | found[low + 1] << 8, expected) << row << " " << column << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace fathom::testing
