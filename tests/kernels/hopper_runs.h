// Runs kernels that use Hopper's units, in every order and at both moments.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tests/emulator/block_runner.h"
#include "tests/emulator/tensor_tile.h"
#include "tests/kernels/hopper_cases.h"

namespace fathom::testing {

// Orders of threads and blocks, and moments of copies and products.
class HopperRuns
    : public ::testing::TestWithParam<std::tuple<emulator::Visiting, emulator::Asynchrony>> {
 protected:
  bool IsLatest() const { return std::get<1>(GetParam()) == emulator::Asynchrony::kLatest; }
  emulator::BlockRunner MakeRunner() const {
    return {32, kHopperSharedBytes, std::get<0>(GetParam()), 3, std::get<1>(GetParam())};
  }
  // Returns the numbers that a case writes; its error fails the test.
  template <class T>
  std::vector<T> NumbersOf(const HopperCase& one) const {
    emulator::BlockRunner runner = MakeRunner();
    const Result<std::vector<std::byte>> output = RunEmulated(one, runner);
    EXPECT_TRUE(output) << one.name << ": " << output.error().message;
    return HopperCase::Numbers<T>(output.value_or(one.output));
  }
  // The error of a run, or nothing. starts_early: it is launched so.
  template <class Arguments>
  std::string RunForError(const emulator::Kernel& kernel, const GpuGrid& grid,
                          const Arguments& arguments, bool starts_early = false) const {
    emulator::BlockRunner runner = MakeRunner();
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
