// GpuDriver: the interface of a device for GpuBackend: memory, kernels, and their order.
//
// One driver per device. NVIDIA's and AMD's drivers are opened at run time (kernels/vendor); the
// emulator (tests/emulator) runs the same kernels on the host, for tests. Work runs in the order of
// the calls, possibly later than the calls. An error of work is stored, and returned by every later
// Synchronize and Wait. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "kernels/gpu/kernel_list.h"
#include "kernels/memory.h"

namespace fathom::kernels {

struct GpuDevice {
  std::string name;          // name from the driver: "NVIDIA H200"
  std::string architecture;  // architecture of the code object: "sm_90a", "gfx942"
  int wave_size = 32;        // 32 or 64 threads run in step
  int n_multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;    // free when the driver was opened
  std::int64_t shared_bytes = 0;  // the most shared memory of a block
  bool is_integrated = false;     // shares the memory of the host
  // Set when the driver was opened:
  bool uses_graphs = false;             // repeated launches become one piece of work
  bool reads_weights_in_place = false;  // ReadInPlace can be called
};

struct GpuGrid {
  std::int64_t x = 1;  // blocks; 0: nothing runs
  int y = 1;
  int threads = 1;                // threads per block: a multiple of the wave size
  std::int64_t shared_bytes = 0;  // dynamic shared memory of a block
};

// The work between the marks of a timer.
enum class TimedWork : std::uint8_t {
  kLong,  // much work, enqueued as it is without marks
  // Single launches, each between marks 2 i and 2 i + 1. The device must not wait for the host in
  // between: launches and marks are enqueued together, if the driver can.
  kSingleLaunches,
};

// Measures the time between points in the order of a driver's work. Must not outlive the driver. To
// be used from the threads of the driver.
class GpuTimer {
 public:
  virtual ~GpuTimer() = default;
  // Records the time at which the work of all earlier calls ends. `mark`: 0 to n_marks - 1 of
  // MakeTimer; a mark that was recorded before is replaced.
  virtual void Mark(int mark) = 0;
  // Waits for both marks, which must have been recorded. Returns the seconds from the first to the
  // last. Errors: as Synchronize.
  virtual Result<double> SecondsBetween(int first, int last) = 0;
};

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual const GpuDevice& device() const = 0;

  // Allocates zeroed memory, aligned to 256 bytes. kShared, kSharedReadOnly: pinned memory of the
  // host, which kernels access at the same address. Error: kOutOfMemory.
  virtual Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) = 0;

  // Lets kernels read memory of the host, including read-only mappings, at its own addresses, until
  // the driver is destroyed. Called only if device().reads_weights_in_place. Error: kOutOfMemory.
  virtual Status ReadInPlace(std::span<const std::span<const std::byte>> pieces) = 0;

  // `from` is read before the call returns.
  virtual void Upload(void* to, std::span<const std::byte> from) = 0;
  // `to` is written when Synchronize, or Wait for a later ticket, returns. If `to` is kShared
  // memory, the call does not wait for the device.
  virtual void Download(std::span<std::byte> to, const void* from) = 0;
  // Runs a kernel. `arguments` are the bytes of the kernel's argument struct, and read before the
  // call returns.
  virtual void Launch(GpuKernel kernel, const GpuGrid& grid,
                      std::span<const std::byte> arguments) = 0;

  virtual Status Synchronize() = 0;
  virtual Ticket Mark() = 0;
  virtual Status Wait(Ticket ticket) = 0;

  // Makes a timer with n_marks marks. Error: kUnavailable.
  virtual Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) = 0;
};

// Launches a kernel with its argument struct. Equal arguments are equal bytes, padding included:
// drivers compare launches by their bytes.
template <class Arguments>
void LaunchWith(GpuDriver& driver, GpuKernel kernel, const GpuGrid& grid, Arguments arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&arguments);
#endif
  driver.Launch(kernel, grid, std::as_bytes(std::span(&arguments, 1)));
}

}  // namespace fathom::kernels
