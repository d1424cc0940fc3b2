// Runs kernels that use Hopper's units, in every order and at both moments.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/emulator/block_runner.h"
#include "kernels/emulator/tensor_tile.h"
#include "tests/kernels/device/hopper_kernels.h"

// clang-format off
#define HOPPER_TEST_KERNELS(X) \
  X(TiledProductF16) X(TiledProductBf16) X(RegisterProduct64) X(RegisterProduct128) \
  X(RegisterProduct256) X(WarpProductF16) X(WarpProductBf16) X(ClusterSum) X(TileCopy) \
  X(SharedProduct128) X(SharedProduct256) X(MoveRegisters) X(PeerSum) X(HopperFaulty) \
  X(EarlyStep) X(EarlyClusterStep)
// clang-format on
#define DECLARE_HOPPER_KERNEL(Name) extern "C" fathom::emulator::Kernel fathom_emulated_##Name();
HOPPER_TEST_KERNELS(DECLARE_HOPPER_KERNEL)
#undef DECLARE_HOPPER_KERNEL

namespace fathom::testing {

inline constexpr std::int64_t kHopperSharedBytes = std::int64_t{227} << 10;

// Orders of threads and blocks, and moments of copies and products.
class HopperRuns
    : public ::testing::TestWithParam<std::tuple<emulator::Visiting, emulator::Asynchrony>> {
 protected:
  bool IsLatest() const { return std::get<1>(GetParam()) == emulator::Asynchrony::kLatest; }
  // The error of a run, or nothing. starts_early: it is launched so.
  template <class Arguments>
  std::string RunForError(const emulator::Kernel& kernel, const GpuGrid& grid,
                          const Arguments& arguments, bool starts_early = false) const {
    emulator::BlockRunner runner(32, kHopperSharedBytes, std::get<0>(GetParam()), 3,
                                 std::get<1>(GetParam()));
    const Status status = runner.Run("Tested", kernel, grid, &arguments, starts_early);
    return status ? "" : status.error().message;
  }
};

inline auto EveryHopperRun() {
  using emulator::Asynchrony;
  using emulator::Visiting;
  return ::testing::Combine(
      ::testing::Values(Visiting::kAscending, Visiting::kDescending, Visiting::kRandom),
      ::testing::Values(Asynchrony::kEarliest, Asynchrony::kLatest));
}

// Memory as a device aligns it.
template <class T>
class AlignedVector {
 public:
  explicit AlignedVector(std::size_t n) : memory_(n * sizeof(T) / 16 + 17), n_(n) {}
  T* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return reinterpret_cast<T*>((address + 255) / 256 * 256);
  }
  T& operator[](std::size_t i) { return data()[i]; }
  std::size_t size() const { return n_; }

 private:
  struct alignas(16) Piece {
    unsigned char bytes[16];
  };
  std::vector<Piece> memory_;
  std::size_t n_;
};

}  // namespace fathom::testing
