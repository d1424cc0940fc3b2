// Runs of the kernels that use Hopper's units (device/hopper_*.cu), which give the same bytes in
// the emulator and on a device: for the tests of the emulator, and for gpu_probe, which compares
// the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/emulator/block_runner.h"
#include "tests/emulator/matrix_unit.h"
#include "tests/emulator/tensor_tile.h"
#include "tests/kernels/device/hopper_kernels.h"

// clang-format off
#define HOPPER_TEST_KERNELS(X) \
  X(TiledProductF16) X(TiledProductBf16) X(RegisterProduct8) X(RegisterProduct64) \
  X(RegisterProduct128) X(RegisterProduct256) X(SharedProduct8) X(SharedProduct128) \
  X(SharedProduct256) X(WarpProductF16) X(WarpProductBf16) X(ClusterSum) X(TileCopy) \
  X(MoveRegisters) X(PeerSum) X(HopperFaulty) X(EarlyStep) X(EarlyClusterStep)
// clang-format on
#define DECLARE_HOPPER_KERNEL(Name) \
  extern "C" fathom::kernels::emulator::Kernel fathom_emulated_##Name();
HOPPER_TEST_KERNELS(DECLARE_HOPPER_KERNEL)
#undef DECLARE_HOPPER_KERNEL

namespace fathom::testing {

inline constexpr std::int64_t kHopperSharedBytes = std::int64_t{227} << 10;

// A tile of input array `input`; the address is set where the arrays lie.
struct HopperTile {
  std::size_t input = 0;
  emulator::TensorTile tile;
};

// Addresses of a case's arrays, for its argument struct.
struct HopperPlaces {
  std::vector<void*> inputs;
  std::vector<TensorMap> maps;
  void* output = nullptr;
};

struct HopperCase {
  std::string name;    // "TileCopy, swizzled, column 40, row 5"
  std::string kernel;  // "TileCopy"
  emulator::Kernel emulated;
  GpuGrid grid;
  bool starts_early = false;                   // launched so, because it waits for earlier kernels
  std::vector<std::vector<std::byte>> inputs;  // arrays; PeerSum writes them, too
  std::vector<HopperTile> tiles;
  std::vector<std::byte> output;  // before the run
  std::size_t number_bytes = 4;   // of a number of the output
  std::function<std::vector<std::byte>(const HopperPlaces&)> arguments;  // the struct's bytes

  template <class T>
  std::vector<T> Input(std::size_t i) const {
    return Numbers<T>(inputs[i]);
  }
  template <class T>
  static std::vector<T> Numbers(std::span<const std::byte> bytes) {
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
};

// Runs a case in the emulator. Returns its output, or the error of the run.
Result<std::vector<std::byte>> RunEmulated(const HopperCase& one, emulator::BlockRunner& runner);

// Products of tiles that copies bring, `depth` a multiple of 64; of registers or shared memory, 32
// deep; of a warp, with B as columns or as rows. Inputs 0 and 1 are A and B by rows.
inline constexpr std::int64_t kTiledDepth = 320;  // five tiles through two stages
HopperCase TiledProductCase(emulator::MatrixFormat format);
std::vector<HopperCase> RegisterProductCases();
HopperCase WarpProductCase(emulator::MatrixFormat format, bool b_has_columns);
// The format of a product's numbers.
emulator::MatrixFormat FormatOf(const HopperCase& product);

inline constexpr std::size_t kSumBlocks = 3 * kSumCluster;
HopperCase ClusterSumCase();
HopperCase MoveRegistersCase(bool releases);
HopperCase PeerSumCase();  // one rank, with itself

// A tile of kTileRows rows at any place of a matrix of 16-bit numbers, also outside of it.
inline constexpr std::int64_t kTileRows = 9;
struct TileCopyCase {
  bool swizzled = false;
  std::int32_t column = 0;
  std::int32_t row = 0;
  std::int64_t TileColumns() const { return swizzled ? 64 : 72; }
};
inline constexpr std::int64_t kMatrixRows = 11;
inline constexpr std::int64_t kMatrixColumns = 100;
inline constexpr std::int64_t kMatrixRowBytes = 208;
std::vector<TileCopyCase> TileCopyCases();
HopperCase MakeTileCopyCase(const TileCopyCase& copy);

// All of these.
std::vector<HopperCase> HopperCases();

}  // namespace fathom::testing
