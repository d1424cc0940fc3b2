#include "tests/emulator/warp_matrix.h"

#include <array>
#include <cstring>

#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {
namespace {

constexpr int kWarp = 32;

struct WarpProduct {
  MatrixFormat format;
  float* sums;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

struct MatrixLoad {
  std::uint32_t* pairs;
  std::size_t n;
  bool transposed;
  std::array<std::uint16_t, 8> row;  // at the address that the thread passes
};

std::uint32_t HalfOfPair(const std::uint32_t* pairs, int i) {
  return pairs[i / 2] >> (i % 2 * 16) & 0xFFFF;
}

void MultiplyWarp(std::span<void* const> calls) {
  std::array<std::array<MatrixNumber, 16>, 16> a;  // rows
  std::array<std::array<MatrixNumber, 16>, 8> b;   // columns
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto& call = *static_cast<const WarpProduct*>(calls[lane]);
    for (int i = 0; i < 8; ++i) {
      const auto row = lane / 4 + static_cast<std::size_t>(i / 2 % 2 * 8);
      const auto k = lane % 4 * 2 + static_cast<std::size_t>(i / 4 * 8 + i % 2);
      a[row][k] = ToMatrixNumber(call.format, HalfOfPair(call.a, i));
    }
    for (int i = 0; i < 4; ++i) {
      const auto k = lane % 4 * 2 + static_cast<std::size_t>(i / 2 * 8 + i % 2);
      b[lane / 4][k] = ToMatrixNumber(call.format, HalfOfPair(call.b, i));
    }
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto& call = *static_cast<const WarpProduct*>(calls[lane]);
    for (std::size_t i = 0; i < 4; ++i) {
      call.sums[i] =
          MultiplyAdd(kSm90Mma, a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2], call.sums[i]);
    }
  }
}

void DistributeMatrices(std::span<void* const> calls) {
  const auto row_of = [&](std::size_t matrix, std::size_t row) -> const auto& {
    return static_cast<const MatrixLoad*>(calls[8 * matrix + row])->row;
  };
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const auto& call = *static_cast<const MatrixLoad*>(calls[lane]);
    const std::size_t i = lane / 4;
    const std::size_t j = lane % 4 * 2;
    for (std::size_t matrix = 0; matrix < call.n; ++matrix) {
      const std::uint32_t low = call.transposed ? row_of(matrix, j)[i] : row_of(matrix, i)[j];
      const std::uint32_t high =
          call.transposed ? row_of(matrix, j + 1)[i] : row_of(matrix, i)[j + 1];
      call.pairs[matrix] = low | high << 16;
    }
  }
}

}  // namespace

void MultiplyByWarp(MatrixFormat format, std::span<float, 4> sums,
                    std::span<const std::uint32_t, 4> a, std::span<const std::uint32_t, 2> b,
                    const MeetingPoint& point) {
  WarpProduct call = {format, sums.data(), a.data(), b.data()};
  Block::Running().Meet(kWarp, &call, &MultiplyWarp, point);
}

void LoadMatrices(std::span<std::uint32_t> pairs, std::uint32_t address, bool transposed,
                  const MeetingPoint& point) {
  Block& block = Block::Running();
  MatrixLoad call = {pairs.data(), pairs.size(), transposed, {}};
  if (static_cast<std::size_t>(block.thread() % kWarp) < 8 * pairs.size()) {
    if (address % 16 != 0) {
      block.Fail(
          fmt::format("thread {} calls {}: expected an address aligned to 16 bytes, found {:#x}",
                      block.thread(), point.operation, address));
    }
    block.hopper().Read(block, address, std::as_writable_bytes(std::span(call.row)));
  }
  block.Meet(kWarp, &call, &DistributeMatrices, point);
}

}  // namespace fathom::kernels::emulator
