// EmulatorDriver: a GPU that is not there. It runs the device sources on the host, for tests.
//
// The kernels are the sources of kernels/gpu/device, compiled by the compiler of the host. What
// depends on what no device promises is found: the order of threads and blocks, a wave of 32 or 64,
// races in shared memory, work that ends later than the call, kernels that overlap. The host cannot
// touch its kDevice memory. It says nothing about speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/gpu/driver.h"
#include "kernels/gpu/limits.h"
#include "tests/emulator/block_runner.h"

namespace fathom {

struct EmulatorOptions {
  int wave_size = 32;  // or 64
  emulator::Visiting visiting = emulator::Visiting::kAscending;
  std::uint32_t seed = 1;  // for Visiting::kRandom
  emulator::Asynchrony asynchrony = emulator::Asynchrony::kEarliest;
  bool runs_when_awaited = false;  // in Synchronize and Wait; else in the call, or the next one
  std::int64_t memory_bytes = std::int64_t{8} << 30;
  std::int64_t shared_bytes = kMaxSharedBytes;
  bool is_integrated = false;  // weights are read in place
};

std::unique_ptr<GpuDriver> MakeEmulatorDriver(const EmulatorOptions& options);

// Devices whose kernels run at the same time, a step of each in turns, and may wait for each other.
// Work runs in Synchronize and Wait of any of them. peer_access: a kernel of one can use the memory
// of all; else the system kills who touches another's. One thread at a time uses them all.
std::vector<std::unique_ptr<GpuDriver>> MakeEmulatorDrivers(const EmulatorOptions& options,
                                                            int n_devices, bool peer_access);

// The launch of a kernel that is not in kernel_list.h.
struct EmulatedLaunch {
  std::string_view name;  // stays valid
  emulator::Kernel kernel;
  GpuGrid grid;
  std::span<const std::byte> arguments;
  // The kernel may begin before the kernels that were launched right before have ended: as soon as
  // all blocks of the last one have called StartDependentKernels or ended. It waits for them with
  // WaitForEarlierKernels. An error of the kernel is: a read of what one of them writes, or any
  // write, before the wait; a block that never waits. Drivers of devices have no such launches yet.
  bool starts_early = false;
};
// The driver was made here.
void LaunchEmulated(GpuDriver& driver, const EmulatedLaunch& launch);

}  // namespace fathom
