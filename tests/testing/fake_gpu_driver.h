// A driver library of NVIDIA and of AMD at once, without a device: memory of the host, work that
// runs when somebody waits for it, and failures on demand. One library of them only records the
// launches of kernels (recorded_launches.cc); the other one runs the kernels in the emulator
// (emulated_launches.cc), so that a program can be tested whole.
//
// The library (fake_gpu_driver.cc) is opened in place of libcuda.so.1 and libamdhip64.so. A test in
// the same process changes the state that the function kFakeGpuDriverName returns; for another
// process, FAKE_GPU_DRIVER in the environment names a state: "old", "no device", "two",
// "free N" (bytes), "integrated", "lacks KERNEL", "fails KERNEL" (at each launch), "corrupts
// KERNEL" (the first byte that is downloaded after each run).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "kernels/gpu/kernel_list.h"

namespace fathom::testing {

// Errors as both vendors number them, the last one NVIDIA's alone.
struct FakeGpuError {
  static constexpr int kInvalidValue = 1;
  static constexpr int kOutOfMemory = 2;
  static constexpr int kNoDevice = 100;
  static constexpr int kNotFound = 500;
  static constexpr int kRegisteredAlready = 712;
  static constexpr int kLaunchFailure = 719;
  static constexpr int kInvalidClusterSize = 912;
};

struct FakeGpu {
  std::string name = "Fake GPU";
  int capability = 90;                                  // CUDA: 90 is 9.0
  std::string architecture = "gfx942:sramecc+:xnack-";  // HIP
  bool is_integrated = false;
  std::size_t memory_bytes = std::size_t{80} << 30;
};

struct FakeLaunch {
  std::string kernel;
  std::vector<unsigned> grid;  // blocks x, y, z, threads x, y, z, bytes of shared memory
  std::vector<std::byte> arguments;
  bool starts_early = false;  // before the launches before it have ended
};

struct FakeGpuDriver;

// Runs a launch, with the bytes of its arguments. Returns the error of the driver, 0 for none. The
// function lies in the library that is opened.
int RunLaunch(FakeGpuDriver& driver, const FakeLaunch& launch);
// The bytes of a kernel's arguments.
std::size_t ArgumentBytes(const FakeGpuDriver& driver, const std::string& kernel);
// The names of the kernels that the library has beside the ones of the list.
std::vector<std::string> MoreKernels();

struct FakeGpuDriver {
  int wave_size = 32;  // of NVIDIA, until the version of HIP is asked for
  int cuda_version = 13000;
  int hip_version = 60342131;
  std::vector<FakeGpu> gpus = {FakeGpu{}};
  std::size_t free_bytes = std::size_t{1} << 30;
  std::vector<std::string> kernels{std::begin(kGpuKernelNames), std::end(kGpuKernelNames)};
  std::size_t argument_bytes = 0;          // of every kernel, where launches are recorded
  std::map<std::string, int> errors;       // by function of DriverApi: the function returns it
  std::map<std::string, int> work_errors;  // by function: its work fails, and waiting returns it
  bool moves_host_memory = false;          // the device has it at another address
  std::string fails;                       // a kernel whose launches fail
  std::string corrupts;                    // a kernel whose results come back wrong

  // The record of what happened.
  std::vector<const void*> images;           // of the modules that were loaded
  std::vector<FakeLaunch> launches;          // those that have run, where they are recorded
  std::map<std::string, std::int64_t> live;  // memory, events and so on that were not freed
  int shared_bytes_allowed = 0;              // by set_function_attribute
  std::map<std::string, bool> large_clusters_allowed;  // likewise, by kernel
  bool corrupts_next_download = false;
  std::deque<std::function<void()>> queue;  // work that has not run; it keeps its errors in failed
  std::uint64_t n_enqueued = 0;
  bool next_starts_early = false;               // the next launch does
  bool captures = false;                        // work goes to `captured` and not to the queue
  std::vector<std::function<void()>> captured;  // until the capture ends
  std::vector<void*> captured_events;           // of the empty functions in `captured`
  std::int64_t n_graphs_launched = 0;
  std::int64_t n_launched_alone = 0;  // since the last other call
  std::int64_t n_lists_alone = 0;     // lists that are long enough for a graph, and came without
  std::map<void*, std::size_t> host_memory;  // pinned: bytes by address
  std::map<void*, unsigned> host_flags;      // with which it was allocated
  std::map<void*, std::size_t> registered;   // ranges of the host that the device reads in place
  std::int64_t n_waits = 0;                  // calls that wait for work that has not run
  std::int64_t n_pageable_downloads = 0;     // copies to memory of the host that is not pinned
  // The device's clock when each mark was recorded is computed from these: a piece of work takes a
  // millisecond; each call that enqueues something takes the host call_ms.
  double call_ms = 0;
  double host_ms = 0;
  double device_ms = 0;
  int failed = 0;  // the first error of work
};

// extern "C" FakeGpuDriver* fake_gpu_driver();
inline constexpr const char* kFakeGpuDriverName = "fake_gpu_driver";
using FakeGpuDriverFunction = FakeGpuDriver* (*)();

}  // namespace fathom::testing
