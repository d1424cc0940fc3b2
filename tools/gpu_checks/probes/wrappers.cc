// The kernels of Hopper's wrappers (kernels/gpu/hopper.h) on the device, against the emulator.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kernels/hopper_cases.h"
#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {
namespace {

using testing::HopperCase;
using testing::HopperPlaces;
using testing::HopperTile;

// Describes a tile of a matrix at `address` to the device.
TensorMap MapOf(ProbeDevice& device, const HopperTile& tile, void* address) {
  const auto number = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint64_t sizes[] = {number(tile.tile.columns), number(tile.tile.rows)};
  const std::uint64_t strides[] = {number(tile.tile.row_bytes)};
  const std::uint32_t tile_sizes[] = {number(tile.tile.tile_columns), number(tile.tile.tile_rows)};
  const std::uint32_t element_strides[] = {1, 1};
  TensorMap map = {};
  device.Keep("cuTensorMapEncodeTiled",
              device.hopper().make_tensor_map(
                  &map, HopperApi::kUint16, /*rank=*/2, address, sizes, strides, tile_sizes,
                  element_strides, /*interleaving=*/0,
                  tile.tile.swizzled != 0 ? HopperApi::kSwizzle128 : 0, /*promotion=*/0,
                  /*fill=*/0));
  return map;
}

std::vector<std::byte> RunOnDevice(ProbeDevice& device, const HopperCase& one) {
  const auto place = [&](const std::vector<std::byte>& content) {
    void* const address = device.Allocate(std::ssize(content));
    device.Upload(address, content);
    return address;
  };
  HopperPlaces places = {.output = place(one.output)};
  for (const auto& input : one.inputs) places.inputs.push_back(place(input));
  for (const HopperTile& tile : one.tiles) {
    places.maps.push_back(MapOf(device, tile, places.inputs[tile.input]));
  }
  const std::vector<std::byte> arguments = one.arguments(places);
  device.LaunchBytes(one.kernel, one.grid, arguments.data(), {.starts_early = one.starts_early});
  std::vector<std::byte> found(one.output.size());
  device.Download(found, places.output);
  device.FreeMemory();
  return found;
}

// Says where two outputs differ, or nothing.
std::string Difference(const HopperCase& one, const std::vector<std::byte>& expected,
                       const std::vector<std::byte>& found) {
  const std::size_t size = one.number_bytes;
  const auto bits = [&](const std::vector<std::byte>& bytes, std::size_t i) {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes.data() + i * size, size);
    return number;
  };
  std::size_t n_different = 0;
  std::string first;
  for (std::size_t i = 0; i < expected.size() / size; ++i) {
    if (bits(expected, i) == bits(found, i)) continue;
    if (++n_different == 1) {
      first = fmt::format("number {}: expected {:0{}x}, found {:0{}x}", i, bits(expected, i),
                          2 * size, bits(found, i), 2 * size);
    }
  }
  if (n_different == 0) return "";
  return fmt::format("{}; {} of {} differ", first, n_different, expected.size() / size);
}

}  // namespace

Status CompareWrappers(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  emulator::BlockRunner runner(32, testing::kHopperSharedBytes, emulator::Visiting::kAscending, 1);
  for (const HopperCase& one : testing::HopperCases()) {
    if (run.Skips(one.name, one.kernel)) continue;
    const Result<std::vector<std::byte>> expected = testing::RunEmulated(one, runner);
    if (!expected) return Unexpected(expected.error());
    const std::vector<std::byte> found = RunOnDevice(device, one);
    if (!device.status()) return device.status();
    const std::string difference = Difference(one, *expected, found);
    Line line = {{"bytes", found.size()}, {"equal", difference.empty()}};
    if (!difference.empty()) line["mismatch"] = difference;
    run.Print(one.name, line);
  }
  return {};
}

}  // namespace fathom::probe
