// ProbeDevice: a CUDA device for programs that measure it: memory, kernels, time, graphs.
//
// An error is kept: from then on no function does anything, allocations are null and times 0, and
// status() returns the error with the names of the kernels that were launched since the last wait.
// So a probe measures without looking, and asks once before it prints. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/vendor/current_device.h"
#include "kernels/vendor/driver_api.h"
#include "tools/gpu_checks/probes/hopper_api.h"

namespace fathom::probe {

struct LaunchOptions {
  // Begins when the launch before it allows that (StartDependentKernels), not when it has ended.
  bool starts_early = false;
};

class ProbeDevice {
 public:
  ProbeDevice() = default;
  ProbeDevice(const ProbeDevice&) = delete;
  ProbeDevice& operator=(const ProbeDevice&) = delete;
  ~ProbeDevice();

  // Opens the device, and loads the fatbins that have code for it. Called once, before the other
  // functions.
  Status Open(int number, std::span<const std::byte* const> fatbins);

  const std::string& name() const { return name_; }
  int capability() const { return capability_; }  // 90: compute capability 9.0
  int n_multiprocessors() const { return n_multiprocessors_; }
  std::int64_t cache_bytes() const { return cache_bytes_; }  // L2
  const DriverApi& api() const { return api_; }
  const HopperApi& hopper() const { return hopper_; }
  void* stream() const { return stream_; }

  // The first error, with what failed; also of what the caller finds.
  const Status& status() const { return status_; }
  void Keep(std::string_view what, int error);

  // Finds a kernel: nullptr if no fatbin has it for this device.
  void* FindKernel(std::string_view kernel) { return KernelNamed(kernel).function; }
  // Says why a kernel cannot run here, or nothing: "the kernel X is compiled for sm_90a: found
  // ...".
  std::string WhyMissing(std::string_view kernel);

  // --- Memory, aligned to 256 bytes, which stays until FreeMemory ---
  void* Allocate(std::int64_t bytes);
  // Pinned memory of the host, at the same address on the device.
  void* AllocateHost(std::int64_t bytes);
  template <class T>
  T* AllocateArray(std::int64_t n) {
    return static_cast<T*>(Allocate(n * static_cast<std::int64_t>(sizeof(T))));
  }
  // Frees all memory and all graphs.
  void FreeMemory();
  void Fill(void* to, unsigned char value, std::int64_t bytes);
  // `from` must stay until the next Wait.
  void Upload(void* to, std::span<const std::byte> from);
  // Waits: `to` is written when the call returns.
  void Download(std::span<std::byte> to, const void* from);
  template <class T>
  std::vector<T> DownloadArray(const T* from, std::int64_t n) {
    std::vector<T> to(static_cast<std::size_t>(n));
    Download(std::as_writable_bytes(std::span(to)), from);
    return to;
  }

  // --- Work ---
  template <class Arguments>
  void Launch(std::string_view kernel, const GpuGrid& grid, const Arguments& arguments,
              const LaunchOptions& options = {}) {
    static_assert(std::is_trivially_copyable_v<Arguments>);
    LaunchBytes(kernel, grid, &arguments, options);
  }
  // `arguments`: the argument struct of the kernel.
  void LaunchBytes(std::string_view kernel, const GpuGrid& grid, const void* arguments,
                   const LaunchOptions& options = {});
  void Wait();
  // Waits in another thread than that which has opened the device, which may look at memory of the
  // host meanwhile. Returns the driver's error, which is not kept.
  int WaitInThread() const;

  // Returns the seconds of the device from before to after the work that `enqueue` enqueues.
  template <class Enqueue>
  double Time(const Enqueue& enqueue) {
    Mark(0);
    enqueue();
    Mark(1);
    return SecondsBetweenMarks();
  }
  // Returns the work that `enqueue` enqueues, as a graph; nullptr after an error. Its kernels have
  // run before: a driver loads a kernel when it first runs, and may not do so here.
  template <class Enqueue>
  void* MakeGraph(const Enqueue& enqueue) {
    BeginGraph();
    enqueue();
    return EndGraph();
  }
  void LaunchGraph(void* graph);

  // Allows clusters of more than 8 blocks. Returns the driver's error, which is not kept.
  int AllowLargeClusters(std::string_view kernel);
  // Returns how many clusters of the kernel run at once, -1 if the driver has an error for it,
  // whose text is then in `why`.
  int CountActiveClusters(std::string_view kernel, const GpuGrid& grid, int cluster,
                          std::string& why);

 private:
  struct Kernel {
    void* function = nullptr;
    std::int64_t shared_bytes = 0;  // dynamic ones that the driver allows
  };
  using KernelNames = std::vector<std::string_view>;  // keys of kernels_
  struct Graph {
    void* ready = nullptr;
    KernelNames kernels;
  };

  Kernel& KernelNamed(std::string_view name);
  // Notes that a kernel was launched since the last wait.
  void Note(std::string_view kernel);
  std::string LaunchedKernels() const;
  bool IsUsable() const { return status_.has_value(); }
  Status Ended(std::string_view what, int error) const;
  Status OpenLibrary();
  Status ReadAttributes(int number);
  Status LoadFatbins(std::span<const std::byte* const> fatbins);
  void AllowShared(Kernel& kernel, std::int64_t bytes);
  void Mark(int mark);
  double SecondsBetweenMarks();
  void BeginGraph();
  void* EndGraph();

  DriverApi api_;
  HopperApi hopper_;
  CurrentDevice current_{api_};
  std::string name_;
  int capability_ = 0;
  int n_multiprocessors_ = 0;
  std::int64_t cache_bytes_ = 0;
  void* stream_ = nullptr;
  void* marks_[2] = {};
  std::vector<void*> modules_;
  std::vector<void*> memory_;
  std::vector<void*> host_memory_;
  std::vector<Graph> graphs_;
  std::map<std::string, Kernel, std::less<>> kernels_;
  KernelNames launched_;               // since the last wait, each once
  KernelNames launched_before_graph_;  // which is being made
  Status status_;
};

}  // namespace fathom::probe
