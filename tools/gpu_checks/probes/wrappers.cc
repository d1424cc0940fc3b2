// The kernels of Hopper's wrappers (tests/hopper/hopper.h) on the device, against the emulator.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/device/early_kernels.h"
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
std::string Difference(std::size_t number_bytes, std::span<const std::byte> expected,
                       std::span<const std::byte> found) {
  const auto bits = [&](std::span<const std::byte> bytes, std::size_t i) {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes.data() + i * number_bytes, number_bytes);
    return number;
  };
  const std::size_t n = expected.size() / number_bytes;
  std::size_t n_different = 0;
  std::string first;
  for (std::size_t i = 0; i < n; ++i) {
    if (bits(expected, i) == bits(found, i)) continue;
    if (++n_different == 1) {
      first = fmt::format("number {}: expected {:0{}x}, found {:0{}x}", i, bits(expected, i),
                          2 * number_bytes, bits(found, i), 2 * number_bytes);
    }
  }
  return n_different == 0 ? "" : fmt::format("{}; {} of {} differ", first, n_different, n);
}

void PrintComparison(const ProbeRun& run, std::string_view name, std::size_t bytes,
                     const std::string& difference) {
  Line line = {{"bytes", bytes}, {"equal", difference.empty()}};
  if (!difference.empty()) line["mismatch"] = difference;
  run.Print(name, line);
}

// Kernels that start early, each of which reads in the opposite order what the one before it has
// written; the numbers stay below 2^31.
constexpr int kChainSteps = 16;
constexpr GpuGrid kChainGrid = {
    .x = 48, .threads = testing::kEarlyThreads, .shared_bytes = testing::kEarlyStepShared};
constexpr std::int64_t kChainNumbers = kChainGrid.x * kChainGrid.threads;

testing::EarlyStepArguments ChainStep(testing::EarlyOrder order, int step,
                                      const std::int32_t* constants, std::int32_t* numbers) {
  return {.order = order,
          .in = numbers + step * kChainNumbers,
          .early = constants,
          .copied = constants,
          .out = numbers + (step + 1) * kChainNumbers};
}

// Runs the chain several times, with other numbers in its memory before.
Status CompareChain(const ProbeRun& run, emulator::BlockRunner& runner, testing::EarlyOrder order,
                    std::string_view name) {
  ProbeDevice& device = run.device();
  if (run.Skips(name, "EarlyStep")) return {};
  std::vector<std::int32_t> constants(static_cast<std::size_t>(kChainNumbers));
  for (std::size_t i = 0; i < constants.size(); ++i) constants[i] = static_cast<int>(i % 5);
  std::vector<std::int32_t> expected(constants.size() * (kChainSteps + 1), 1);
  for (int step = 0; step < kChainSteps; ++step) {
    const auto arguments = ChainStep(order, step, constants.data(), expected.data());
    const Status status = runner.Run("EarlyStep", fathom_emulated_EarlyStep(), kChainGrid,
                                     &arguments, /*starts_early=*/true);
    if (!status) return status;
  }
  const auto expected_bytes = std::as_bytes(std::span(expected));
  auto* const constants_there = device.AllocateArray<std::int32_t>(kChainNumbers);
  auto* const numbers = device.AllocateArray<std::int32_t>(std::ssize(expected));
  device.Upload(constants_there, std::as_bytes(std::span(constants)));
  std::string difference;
  for (int i = 0; i < run.Size(1, 20) && difference.empty(); ++i) {
    device.Fill(numbers, 0xA5, std::ssize(expected_bytes));
    device.Upload(numbers, expected_bytes.first(constants.size() * sizeof(std::int32_t)));
    for (int step = 0; step < kChainSteps; ++step) {
      device.Launch("EarlyStep", kChainGrid, ChainStep(order, step, constants_there, numbers),
                    {.starts_early = true});
    }
    const auto found = device.DownloadArray(numbers, std::ssize(expected));
    if (!device.status()) return device.status();
    difference = Difference(sizeof(std::int32_t), expected_bytes, std::as_bytes(std::span(found)));
  }
  PrintComparison(run, name, expected_bytes.size(), difference);
  return {};
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
    PrintComparison(run, one.name, found.size(), Difference(one.number_bytes, *expected, found));
  }
  using testing::EarlyOrder;
  const std::pair<EarlyOrder, std::string_view> chains[] = {
      {EarlyOrder::kStartsNext, "EarlyStep, a chain that starts the next kernel, then waits"},
      {EarlyOrder::kWaits, "EarlyStep, a chain that waits, then starts the next kernel"}};
  for (const auto& [order, name] : chains) {
    if (Status s = CompareChain(run, runner, order, name); !s) return s;
  }
  return {};
}

}  // namespace fathom::probe
