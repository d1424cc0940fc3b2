#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "kernels/gpu/limits.h"
#include "tests/emulator/block_runner.h"
#include "tests/emulator/kernel_table.h"
#include "tests/testing/fake_gpu_driver.h"
#include "tools/gpu_checks/probes/emulated_kernels.h"

namespace fathom::testing {
namespace {

constexpr int kPortableCluster = 8;  // blocks, without an attribute

const emulator::Kernel& FindKernel(std::string_view name) {
  const auto* const listed = std::ranges::find(kGpuKernelNames, name);
  if (listed != std::end(kGpuKernelNames)) {
    return emulator::FindKernel(static_cast<GpuKernel>(listed - std::begin(kGpuKernelNames)));
  }
  return std::ranges::find(probe::EmulatedKernels(), name, &probe::EmulatedKernel::name)->kernel;
}

// The shared memory of a block that a driver allows.
std::int64_t SharedBytes(const FakeGpuDriver& driver) {
  return std::max<std::int64_t>(kMaxSharedBytes, driver.shared_bytes_allowed);
}

}  // namespace

int RunLaunch(FakeGpuDriver& driver, const FakeLaunch& launch) {
  constexpr std::int64_t kMostSharedBytes = std::int64_t{227} << 10;
  static emulator::BlockRunner runner(driver.wave_size, kMostSharedBytes,
                                      emulator::Visiting::kAscending, 1);
  const GpuGrid grid = {.x = launch.grid[0],
                        .y = static_cast<int>(launch.grid[1]),
                        .threads = static_cast<int>(launch.grid[3]),
                        .shared_bytes = launch.grid[6]};
  const emulator::Kernel& kernel = FindKernel(launch.kernel);
  if (grid.shared_bytes > SharedBytes(driver)) return FakeGpuError::kInvalidValue;
  if (kernel.cluster > kPortableCluster && !driver.large_clusters_allowed[launch.kernel]) {
    return FakeGpuError::kInvalidClusterSize;
  }
  // The arguments as a kernel aligns them.
  struct alignas(128) Piece {
    std::byte bytes[128];
  };
  std::vector<Piece> arguments(launch.arguments.size() / sizeof(Piece) + 1);
  std::memcpy(arguments.data(), launch.arguments.data(), launch.arguments.size());
  const Status ran = runner.Run(launch.kernel, kernel, grid, arguments.data(), launch.starts_early);
  return ran ? 0 : FakeGpuError::kLaunchFailure;
}

std::size_t ArgumentBytes(const FakeGpuDriver&, const std::string& kernel) {
  return FindKernel(kernel).argument_bytes;
}

std::vector<std::string> MoreKernels() {
  std::vector<std::string> names;
  for (const probe::EmulatedKernel& kernel : probe::EmulatedKernels()) {
    names.emplace_back(kernel.name);
  }
  return names;
}

}  // namespace fathom::testing
