#include "tests/kernels/hopper_cases.h"

#include <fmt/format.h>

#include <numeric>
#include <random>
#include <utility>

namespace fathom::testing {
namespace {

using emulator::Kernel;
using emulator::MatrixFormat;
using emulator::TensorTile;

template <class T>
std::vector<std::byte> BytesOf(std::span<const T> numbers) {
  const auto bytes = std::as_bytes(numbers);
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::vector<std::byte> BytesOf(const std::vector<T>& numbers) {
  return BytesOf(std::span<const T>(numbers));
}
template <class Arguments>
std::vector<std::byte> StructBytes(const Arguments& arguments) {
  return BytesOf(std::span<const Arguments>(&arguments, 1));
}

// Numbers of 16 bits, random and of moderate size.
std::vector<std::byte> RandomNumbers(MatrixFormat format, std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> numbers(n);
  for (std::uint16_t& number : numbers) {
    const auto bits = static_cast<std::uint32_t>(random());
    number = static_cast<std::uint16_t>(format == MatrixFormat::kF16 ? (bits & 0x8FFF) | 0x3000
                                                                     : (bits & 0x80FF) | 0x3F00);
  }
  return BytesOf(numbers);
}

template <class T>
std::vector<T> Counting(std::size_t n, T first) {
  std::vector<T> numbers(n);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

HopperTile SwizzledTile(std::size_t input, std::int64_t columns) {
  return {.input = input,
          .tile = {.rows = 64,
                   .columns = columns,
                   .row_bytes = 2 * columns,
                   .element_bytes = 2,
                   .tile_rows = 64,
                   .tile_columns = 64,
                   .swizzled = 1}};
}

// Memory as a device aligns it.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const std::byte> content) : memory_(content.size() + kAlignment) {
    std::memcpy(data(), content.data(), content.size());
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes(AlignedBytes&&) = default;
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - address % kAlignment);
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<std::byte> memory_;
};

}  // namespace

Result<std::vector<std::byte>> RunEmulated(const HopperCase& one, emulator::BlockRunner& runner) {
  std::vector<AlignedBytes> inputs(one.inputs.begin(), one.inputs.end());
  AlignedBytes output(one.output);
  HopperPlaces places = {.output = output.data()};
  for (AlignedBytes& input : inputs) places.inputs.push_back(input.data());
  for (const HopperTile& tile : one.tiles) {
    TensorTile placed = tile.tile;
    placed.data = inputs[tile.input].data();
    places.maps.push_back(emulator::ToTensorMap(placed));
  }
  AlignedBytes arguments(one.arguments(places));
  const Status run =
      runner.Run(one.kernel, one.emulated, one.grid, arguments.data(), one.starts_early);
  if (!run) return Unexpected(run.error());
  return std::vector<std::byte>(output.data(), output.data() + one.output.size());
}

HopperCase TiledProductCase(MatrixFormat format) {
  const bool is_f16 = format == MatrixFormat::kF16;
  HopperCase one = {
      .kernel = is_f16 ? "TiledProductF16" : "TiledProductBf16",
      .emulated = is_f16 ? fathom_emulated_TiledProductF16() : fathom_emulated_TiledProductBf16(),
      .grid = {.threads = 256, .shared_bytes = kTiledProductShared},
      .starts_early = true,
      .inputs = {RandomNumbers(format, 64 * kTiledDepth, 1),
                 RandomNumbers(format, 64 * kTiledDepth, 2)},
      .tiles = {SwizzledTile(0, kTiledDepth), SwizzledTile(1, kTiledDepth)},
      .output = BytesOf(std::vector<float>(64 * 64, -1.0f)),
      .arguments = [](const HopperPlaces& at) {
        return StructBytes(TiledProductArguments{at.maps[0], at.maps[1], kTiledDepth,
                                                 static_cast<float*>(at.output)});
      }};
  one.name = one.kernel;
  return one;
}

MatrixFormat FormatOf(const HopperCase& product) {
  const bool is_bf16 = product.kernel.ends_with("Bf16") || product.kernel == "RegisterProduct128" ||
                       product.kernel == "SharedProduct256";
  return is_bf16 ? MatrixFormat::kBf16 : MatrixFormat::kF16;
}

std::vector<HopperCase> RegisterProductCases() {
  const std::tuple<const char*, std::size_t, Kernel> kinds[] = {
      {"RegisterProduct8", 8, fathom_emulated_RegisterProduct8()},
      {"RegisterProduct64", 64, fathom_emulated_RegisterProduct64()},
      {"RegisterProduct128", 128, fathom_emulated_RegisterProduct128()},
      {"RegisterProduct256", 256, fathom_emulated_RegisterProduct256()},
      {"SharedProduct8", 8, fathom_emulated_SharedProduct8()},
      {"SharedProduct128", 128, fathom_emulated_SharedProduct128()},
      {"SharedProduct256", 256, fathom_emulated_SharedProduct256()}};
  std::vector<HopperCase> cases;
  for (const auto& [kernel, columns, emulated] : kinds) {
    HopperCase one = {
        .name = kernel,
        .kernel = kernel,
        .emulated = emulated,
        .grid = {.threads = 128, .shared_bytes = kRegisterProductShared},
        .output = BytesOf(std::vector<float>(64 * columns)),
        .arguments = [](const HopperPlaces& at) {
          return StructBytes(RegisterProductArguments{
              static_cast<const std::uint16_t*>(at.inputs[0]),
              static_cast<const std::uint16_t*>(at.inputs[1]), static_cast<float*>(at.output)});
        }};
    one.inputs = {RandomNumbers(FormatOf(one), 64 * 32, 3),
                  RandomNumbers(FormatOf(one), columns * 32, 4)};
    cases.push_back(std::move(one));
  }
  return cases;
}

HopperCase WarpProductCase(MatrixFormat format, bool b_has_columns) {
  const bool is_f16 = format == MatrixFormat::kF16;
  const std::string kernel = is_f16 ? "WarpProductF16" : "WarpProductBf16";
  HopperCase one = {
      .name = fmt::format("{}, B by {}", kernel, b_has_columns ? "columns" : "rows"),
      .kernel = kernel,
      .emulated = is_f16 ? fathom_emulated_WarpProductF16() : fathom_emulated_WarpProductBf16(),
      .grid = {.threads = 32, .shared_bytes = kWarpProductShared},
      .inputs = {RandomNumbers(format, 16 * 16, 5), RandomNumbers(format, 8 * 16, 6)},
      .arguments = [b_has_columns](const HopperPlaces& at) {
        return StructBytes(WarpProductArguments{static_cast<const std::uint16_t*>(at.inputs[0]),
                                                static_cast<const std::uint16_t*>(at.inputs[1]),
                                                b_has_columns, static_cast<float*>(at.output)});
      }};
  if (!b_has_columns) {
    const auto columns = one.Input<std::uint16_t>(1);
    std::vector<std::uint16_t> rows(columns.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = columns[i % 8 * 16 + i / 8];
    one.inputs[1] = BytesOf(rows);
  }
  std::vector<float> start = Counting(16 * 8, -60.0f);
  start.resize(2 * start.size());
  one.output = BytesOf(start);
  return one;
}

HopperCase ClusterSumCase() {
  return {.name = "ClusterSum",
          .kernel = "ClusterSum",
          .emulated = fathom_emulated_ClusterSum(),
          .grid = {.x = kSumBlocks, .threads = 64, .shared_bytes = kClusterSumShared},
          .inputs = {BytesOf(Counting(kSumBlocks * 64, 1.0f))},
          .output = BytesOf(std::vector<float>(kSumBlocks)),
          .arguments = [](const HopperPlaces& at) {
            return StructBytes(ClusterSumArguments{static_cast<const float*>(at.inputs[0]),
                                                   static_cast<float*>(at.output)});
          }};
}

HopperCase MoveRegistersCase(bool releases) {
  return {
      .name = "MoveRegisters",
      .kernel = "MoveRegisters",
      .emulated = fathom_emulated_MoveRegisters(),
      .grid = {.threads = 384},
      .output = BytesOf(std::vector<std::int32_t>(384)),
      .arguments = [releases](const HopperPlaces& at) {
        return StructBytes(MoveRegistersArguments{releases, static_cast<std::int32_t*>(at.output)});
      }};
}

HopperCase PeerSumCase() {
  constexpr std::size_t kBlocks = 4;
  const std::vector<std::int32_t> zeros(kBlocks * 64);
  return {.name = "PeerSum",
          .kernel = "PeerSum",
          .emulated = fathom_emulated_PeerSum(),
          .grid = {.x = kBlocks, .threads = 64},
          .inputs = {BytesOf(zeros), BytesOf(std::vector<std::uint32_t>(2))},
          .output = BytesOf(zeros),
          .arguments = [](const HopperPlaces& at) {
            PeerSumArguments arguments = {.rank = 0, .n_ranks = 1, .first = 1000};
            arguments.told[0] = static_cast<std::int32_t*>(at.inputs[0]);
            arguments.flags[0] = static_cast<std::uint32_t*>(at.inputs[1]);
            arguments.out = static_cast<std::int32_t*>(at.output);
            return StructBytes(arguments);
          }};
}

std::vector<TileCopyCase> TileCopyCases() {
  std::vector<TileCopyCase> cases;
  for (const bool swizzled : {false, true}) {
    for (const auto& [column, row] : {std::pair{0, 0}, {40, 5}, {-3, -2}, {97, 10}, {-70, 0}}) {
      cases.push_back({.swizzled = swizzled, .column = column, .row = row});
    }
  }
  return cases;
}

HopperCase MakeTileCopyCase(const TileCopyCase& copy) {
  const std::int64_t tile_columns = copy.TileColumns();
  const auto bytes = static_cast<std::int32_t>(kTileRows * tile_columns * 2);
  return {.name = fmt::format("TileCopy{}, column {}, row {}", copy.swizzled ? ", swizzled" : "",
                              copy.column, copy.row),
          .kernel = "TileCopy",
          .emulated = fathom_emulated_TileCopy(),
          .grid = {.threads = 64, .shared_bytes = kTileCopyShared},
          .inputs = {BytesOf(Counting(kMatrixRows * kMatrixRowBytes / 2, std::uint16_t{1}))},
          .tiles = {{.tile = {.rows = kMatrixRows,
                              .columns = kMatrixColumns,
                              .row_bytes = kMatrixRowBytes,
                              .element_bytes = 2,
                              .tile_rows = kTileRows,
                              .tile_columns = tile_columns,
                              .swizzled = copy.swizzled ? 1 : 0}}},
          .output = std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xAA}),
          .number_bytes = 2,
          .arguments = [copy, bytes](const HopperPlaces& at) {
            return StructBytes(TileCopyArguments{at.maps[0], copy.column, copy.row, bytes,
                                                 static_cast<unsigned char*>(at.output)});
          }};
}

std::vector<HopperCase> HopperCases() {
  std::vector<HopperCase> cases = RegisterProductCases();
  for (const MatrixFormat format : {MatrixFormat::kF16, MatrixFormat::kBf16}) {
    cases.push_back(TiledProductCase(format));
    cases.push_back(WarpProductCase(format, true));
    cases.push_back(WarpProductCase(format, false));
  }
  cases.push_back(ClusterSumCase());
  cases.push_back(MoveRegistersCase(true));
  cases.push_back(PeerSumCase());
  for (const TileCopyCase& copy : TileCopyCases()) cases.push_back(MakeTileCopyCase(copy));
  return cases;
}

}  // namespace fathom::testing
