#include <algorithm>
#include <iterator>
#include <string_view>

#include "kernels/emulator/block_runner.h"
#include "kernels/emulator/kernel_table.h"
#include "kernels/gpu/limits.h"
#include "tests/testing/fake_gpu_driver.h"

namespace fathom::testing {
namespace {

constexpr int kLaunchFailure = 719;  // as both vendors number it

const emulator::Kernel& FindKernel(std::string_view name) {
  const auto* const found = std::ranges::find(kGpuKernelNames, name);
  return emulator::FindKernel(static_cast<GpuKernel>(found - std::begin(kGpuKernelNames)));
}

}  // namespace

int RunLaunch(FakeGpuDriver& driver, const FakeLaunch& launch) {
  static emulator::BlockRunner runner(driver.wave_size, kMaxSharedBytes,
                                      emulator::Visiting::kAscending, 1);
  const GpuGrid grid = {.x = launch.grid[0],
                        .y = static_cast<int>(launch.grid[1]),
                        .threads = static_cast<int>(launch.grid[3]),
                        .shared_bytes = launch.grid[6]};
  // A vector's bytes have the alignment of every struct.
  return runner.Run(launch.kernel, FindKernel(launch.kernel), grid, launch.arguments.data())
             ? 0
             : kLaunchFailure;
}

std::size_t ArgumentBytes(const FakeGpuDriver&, const std::string& kernel) {
  return FindKernel(kernel).argument_bytes;
}

}  // namespace fathom::testing
