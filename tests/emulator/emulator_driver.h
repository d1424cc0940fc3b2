// EmulatorDriver: an emulated GPU. It runs the device sources on the host, for tests.
//
// The kernels are the sources of kernels/gpu/device, compiled by the compiler of the host. The
// emulator finds dependence on things that no device guarantees: the order of threads and blocks, a
// wave of 32 or 64, races in shared memory, work that ends later than the call, kernels that
// overlap. The host cannot access the emulated kDevice memory. The emulator does not model speed.
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

namespace fathom::kernels {

struct EmulatorOptions {
  int wave_size = 32;  // 32 or 64
  emulator::Visiting visiting = emulator::Visiting::kAscending;
  std::uint32_t seed = 1;  // for Visiting::kRandom
  emulator::Asynchrony asynchrony = emulator::Asynchrony::kEarliest;
  bool runs_when_awaited = false;  // in Synchronize and Wait; else in the call, or the next
  std::int64_t memory_bytes = std::int64_t{8} << 30;
  std::int64_t shared_bytes = kMaxSharedBytes;
  bool is_integrated = false;  // weights are read in place
};

std::unique_ptr<GpuDriver> MakeEmulatorDriver(const EmulatorOptions& options);

// Devices whose kernels run at the same time, a step of each in turns, and may wait for each other.
// Work runs in Synchronize and Wait of any of them. peer_access: a kernel of one device can use the
// memory of all; else the system kills the process at such an access. All are used by one thread at
// a time.
std::vector<std::unique_ptr<GpuDriver>> MakeEmulatorDrivers(const EmulatorOptions& options,
                                                            int n_devices, bool peer_access);

// The launch of a kernel that is not in kernel_list.h.
struct EmulatedLaunch {
  std::string_view name;  // must stay valid
  emulator::Kernel kernel;
  GpuGrid grid;
  std::span<const std::byte> arguments;
  // The kernel may begin before the kernels that were launched right before have ended: as soon as
  // all blocks of the last one have called StartDependentKernels or ended. It waits for them with
  // WaitForEarlierKernels. Errors of the kernel: before the wait, a read of memory that one of them
  // writes, or any write; a block that never waits. Drivers of devices have no such launches yet.
  bool starts_early = false;
};
// Launches a kernel on a driver that was made here.
void LaunchEmulated(GpuDriver& driver, const EmulatedLaunch& launch);

}  // namespace fathom::kernels
