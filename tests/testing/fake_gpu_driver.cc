#include "tests/testing/fake_gpu_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/vendor/launch_graphs.h"

namespace fathom::testing {
namespace {

// Whether a state is `prefix` with a value, which becomes the value.
bool HasPrefix(std::string_view state, std::string_view prefix, std::string& value) {
  if (!state.starts_with(prefix)) return false;
  value = state.substr(prefix.size());
  return true;
}

FakeGpuDriver StateOfEnvironment() {
  FakeGpuDriver driver;
  for (std::string& kernel : MoreKernels()) driver.kernels.push_back(std::move(kernel));
  const char* const value = std::getenv("FAKE_GPU_DRIVER");
  const std::string_view state = value == nullptr ? "" : value;
  if (state == "old") {
    driver.cuda_version = 12040;
    driver.hip_version = 50700000;
  }
  if (state == "no device") driver.gpus.clear();
  std::string value_of_state;
  if (HasPrefix(state, "free ", value_of_state)) {
    driver.free_bytes = std::strtoull(value_of_state.c_str(), nullptr, 10);
  }
  if (HasPrefix(state, "lacks ", value_of_state)) std::erase(driver.kernels, value_of_state);
  HasPrefix(state, "fails ", driver.fails);
  HasPrefix(state, "corrupts ", driver.corrupts);
  if (state == "integrated") driver.gpus.front().is_integrated = true;
  if (state == "two") {
    driver.gpus.push_back({.name = "Old GPU", .capability = 75, .architecture = "gfx906"});
  }
  return driver;
}

FakeGpuDriver& Driver() {
  static FakeGpuDriver driver = StateOfEnvironment();
  return driver;
}

int FindError(const std::map<std::string, int>& errors, const char* function) {
  const auto found = errors.find(function);
  return found == errors.end() ? 0 : found->second;
}

// Runs `make` and counts what it made, unless the function is to fail.
template <class Make>
int MakeOne(const char* function, const char* kind, const Make& make) {
  if (const int error = FindError(Driver().errors, function); error != 0) return error;
  make();
  ++Driver().live[kind];
  return 0;
}

int FreeOne(const char* kind, void* what) {
  --Driver().live[kind];
  std::free(what);
  return 0;
}

// The device begins a piece of work when it has been enqueued and the work before it has ended.
void Pass(FakeGpuDriver& driver, double work_ms) {
  driver.device_ms = std::max(driver.device_ms, driver.host_ms) + work_ms;
}

// Counts the launches alone since the last other call as lists that came without a graph.
void EndLaunchesAlone(FakeGpuDriver& driver) {
  const std::int64_t n = std::exchange(driver.n_launched_alone, 0);
  constexpr auto kLeast = static_cast<std::int64_t>(LaunchGraphs::kLeastLaunches);
  constexpr auto kMost = static_cast<std::int64_t>(LaunchGraphs::kMostLaunches);
  driver.n_lists_alone += n / kMost + (n % kMost >= kLeast ? 1 : 0);
}

// `work` returns an error, 0 for none.
int Enqueue(const char* function, std::function<int()> work) {
  FakeGpuDriver& driver = Driver();
  if (!driver.captures && std::string_view(function) != "launch") EndLaunchesAlone(driver);
  if (const int error = FindError(driver.errors, function); error != 0) return error;
  const int failure = FindError(driver.work_errors, function);
  const auto run = [failure, work = std::move(work)] {
    const int error = failure == 0 ? work() : failure;
    if (Driver().failed == 0) Driver().failed = error;
  };
  if (driver.captures) {
    driver.captured.push_back(run);
    return driver.failed;
  }
  driver.queue.push_back(run);
  ++driver.n_enqueued;
  driver.host_ms += driver.call_ms;
  Pass(driver, 1);
  return driver.failed;
}

int EnqueueCopy(const char* function, void* to, const void* from, std::size_t bytes) {
  return Enqueue(function, [=] {
    std::memcpy(to, from, bytes);
    return 0;
  });
}

// Runs the work that was enqueued before the n-th piece, counted from the first ever.
int RunBefore(const char* function, std::uint64_t n) {
  FakeGpuDriver& driver = Driver();
  if (!driver.queue.empty() && driver.n_enqueued - driver.queue.size() < n) ++driver.n_waits;
  driver.host_ms = std::max(driver.host_ms, driver.device_ms);
  if (const int error = FindError(driver.errors, function); error != 0) return error;
  while (!driver.queue.empty() && driver.n_enqueued - driver.queue.size() < n) {
    driver.queue.front()();
    driver.queue.pop_front();
  }
  return driver.failed;
}

// A graph: its pieces of work; an empty function stands for the record of the next of its events.
struct FakeGraph {
  std::vector<std::function<void()>> work;
  std::vector<void*> events;
};
FakeGraph& GraphAt(void* graph) { return *static_cast<FakeGraph*>(graph); }
int FreeGraph(const char* kind, void* graph) {
  delete &GraphAt(graph);
  return FreeOne(kind, nullptr);
}

struct FakeEvent {
  unsigned flags = 0;
  std::uint64_t n_before = 0;  // pieces of work that were enqueued before it
  double device_ms = 0;        // when the device came there
};
FakeEvent& EventAt(void* event) { return *static_cast<FakeEvent*>(event); }

void Record(void* event) {
  EventAt(event).n_before = Driver().n_enqueued;
  EventAt(event).device_ms = Driver().device_ms;
}

void* Allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

const FakeGpu* FindGpu(int device) {
  const std::vector<FakeGpu>& gpus = Driver().gpus;
  const auto number = static_cast<std::size_t>(device);
  return device >= 0 && number < gpus.size() ? &gpus[number] : nullptr;
}

// The numbers of both vendors' attributes differ.
int FindAttribute(const std::map<int, int>& values, int attribute, int* value) {
  const auto found = values.find(attribute);
  if (found == values.end()) return FakeGpuError::kInvalidValue;
  *value = found->second;
  return FindError(Driver().errors, "device_attribute");
}

}  // namespace
}  // namespace fathom::testing

using namespace fathom::testing;  // NOLINT: the functions below are C's

extern "C" {

FakeGpuDriver* fake_gpu_driver() { return &Driver(); }

int FakeInitialize(unsigned) {
  if (const int error = FindError(Driver().errors, "initialize"); error != 0) return error;
  return Driver().gpus.empty() ? FakeGpuError::kNoDevice : 0;
}
int FakeCudaVersion(int* version) {
  *version = Driver().cuda_version;
  return 0;
}
int FakeHipVersion(int* version) {
  *version = Driver().hip_version;
  Driver().wave_size = 64;
  return 0;
}
int FakeErrorText(int error, const char** text) {
  *text = error == FakeGpuError::kLaunchFailure ? "unspecified launch failure" : nullptr;
  return *text == nullptr ? FakeGpuError::kInvalidValue : 0;
}

int FakeDeviceCount(int* count) {
  *count = static_cast<int>(Driver().gpus.size());
  return FindError(Driver().errors, "device_count");
}
int FakeDevice(int* device, int number) {
  *device = number;
  return FindError(Driver().errors, "device");
}
int FakeDeviceName(char* name, int length, int device) {
  const FakeGpu* const gpu = FindGpu(device);
  if (gpu == nullptr) return FakeGpuError::kInvalidValue;
  const std::size_t n = gpu->name.copy(name, static_cast<std::size_t>(length) - 1);
  name[n] = '\0';
  return FindError(Driver().errors, "device_name");
}
int FakeDeviceMemory(std::size_t* bytes, int device) {
  *bytes = FindGpu(device)->memory_bytes;
  return 0;
}
int FakeCudaAttribute(int* value, int attribute, int device) {
  const FakeGpu& gpu = *FindGpu(device);
  return FindAttribute({{10, 32},
                        {16, 132},
                        {18, gpu.is_integrated ? 1 : 0},
                        {38, 50 << 20},
                        {75, gpu.capability / 10},
                        {76, gpu.capability % 10},
                        {97, 232448}},
                       attribute, value);
}
int FakeHipAttribute(int* value, int attribute, int device) {
  return FindAttribute(
      {{16, FindGpu(device)->is_integrated ? 1 : 0}, {63, 304}, {74, 65536}, {87, 64}}, attribute,
      value);
}
int FakeDeviceProperties(void* properties, int device) {
  constexpr std::size_t kArchitectureAt = 1160;
  // More than ROCm 6 fills.
  constexpr std::size_t kBytes = 2048;
  std::memset(properties, 0x5A, kBytes);
  const std::string& name = FindGpu(device)->architecture;
  std::memcpy(static_cast<char*>(properties) + kArchitectureAt, name.c_str(), name.size() + 1);
  return FindError(Driver().errors, "device_properties");
}

int FakeRetainContext(void** context, int) {
  return MakeOne("retain_context", "context", [&] { *context = &Driver(); });
}
int FakeReleaseContext(int) { return FreeOne("context", nullptr); }
int FakeSetContext(void*) { return FindError(Driver().errors, "set_context"); }
int FakeSetDevice(int) { return FindError(Driver().errors, "set_device"); }

int FakeMemory(std::size_t* free, std::size_t* total) {
  *free = Driver().free_bytes;
  *total = Driver().gpus.front().memory_bytes;
  return FindError(Driver().errors, "memory");
}
int FakeAllocate(void** address, std::size_t bytes) {
  if (bytes > Driver().free_bytes) return FakeGpuError::kOutOfMemory;
  return MakeOne("allocate", "memory", [&] {
    *address = Allocate(bytes);
    std::memset(*address, 0xA5, bytes);
  });
}
int FakeFree(void* address) { return FreeOne("memory", address); }
int FakeAllocateHost(void** address, std::size_t bytes, unsigned flags) {
  if (bytes > Driver().free_bytes) return FakeGpuError::kOutOfMemory;
  return MakeOne("allocate_host", "host memory", [&] {
    *address = Allocate(bytes);
    std::memset(*address, 0xA5, bytes);
    Driver().host_memory[*address] = bytes;
    Driver().host_flags[*address] = flags;
  });
}
int FakeFreeHost(void* address) {
  Driver().host_memory.erase(address);
  Driver().host_flags.erase(address);
  return FreeOne("host memory", address);
}
// Whole pages, none of which are registered already.
int FakeRegisterHost(void* host, std::size_t bytes, unsigned) {
  constexpr std::size_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(host);
  if (begin % kPage != 0 || bytes % kPage != 0) return FakeGpuError::kInvalidValue;
  for (const auto& [other, other_bytes] : Driver().registered) {
    const auto other_begin = reinterpret_cast<std::uintptr_t>(other);
    if (begin < other_begin + other_bytes && other_begin < begin + bytes)
      return FakeGpuError::kRegisteredAlready;
  }
  return MakeOne("register_host", "registered", [&] { Driver().registered[host] = bytes; });
}
int FakeUnregisterHost(void* host) {
  if (Driver().registered.erase(host) == 0) return FakeGpuError::kInvalidValue;
  return FreeOne("registered", nullptr);
}
int FakeAddressOfHost(void** address, void* host, unsigned) {
  *address = static_cast<char*>(host) + (Driver().moves_host_memory ? 4096 : 0);
  return FindError(Driver().errors, "address_of_host");
}
int FakeFill(void* to, unsigned char value, std::size_t bytes, void*) {
  return Enqueue("fill", [=] {
    std::memset(to, value, bytes);
    return 0;
  });
}
int FakeUpload(void* to, const void* from, std::size_t bytes, void*) {
  return EnqueueCopy("upload", to, from, bytes);
}
int FakeDownload(void* to, const void* from, std::size_t bytes, void*) {
  const auto after = Driver().host_memory.upper_bound(to);
  const bool is_pinned =
      after != Driver().host_memory.begin() &&
      static_cast<std::byte*>(to) + bytes <=
          static_cast<std::byte*>(std::prev(after)->first) + std::prev(after)->second;
  Driver().n_pageable_downloads += is_pinned ? 0 : 1;
  return Enqueue("download", [=] {
    std::memcpy(to, from, bytes);
    if (std::exchange(Driver().corrupts_next_download, false)) {
      *static_cast<unsigned char*>(to) ^= 1;
    }
    return 0;
  });
}

int FakeMakeStream(void** stream, unsigned) {
  return MakeOne("make_stream", "stream", [&] { *stream = std::malloc(1); });
}
int FakeWaitForStream(void*) { return RunBefore("wait_for_stream", Driver().n_enqueued); }
int FakeFreeStream(void* stream) { return FreeOne("stream", stream); }
int FakeMakeEvent(void** event, unsigned flags) {
  return MakeOne("make_event", "event", [&] {
    *event = std::calloc(1, sizeof(FakeEvent));
    EventAt(*event).flags = flags;
  });
}
int FakeRecordEvent(void* event, void*) {
  Driver().host_ms += Driver().call_ms;
  Pass(Driver(), 0);
  Record(event);
  return FindError(Driver().errors, "record_event");
}
int FakeRecordEventInGraph(void* event, void* stream, unsigned flags) {
  if (!Driver().captures || flags != 1) return FakeRecordEvent(event, stream);
  Driver().captured.emplace_back();
  Driver().captured_events.push_back(event);
  return FindError(Driver().errors, "record_event_in_graph");
}
int FakeWaitForEvent(void* event) { return RunBefore("wait_for_event", EventAt(event).n_before); }
int FakeElapsedTime(float* milliseconds, void* first, void* last) {
  constexpr unsigned kWithoutTime = 2;
  if (((EventAt(first).flags | EventAt(last).flags) & kWithoutTime) != 0) {
    return FakeGpuError::kInvalidValue;
  }
  *milliseconds = static_cast<float>(EventAt(last).device_ms - EventAt(first).device_ms);
  return FindError(Driver().errors, "elapsed_time");
}
int FakeFreeEvent(void* event) { return FreeOne("event", event); }

int FakeLoadModule(void** module, const void* image) {
  return MakeOne("load_module", "module", [&] {
    Driver().images.push_back(image);
    *module = std::malloc(1);
  });
}
int FakeUnloadModule(void* module) { return FreeOne("module", module); }
int FakeFindFunction(void** function, void*, const char* name) {
  std::vector<std::string>& kernels = Driver().kernels;
  const auto found = std::find(kernels.begin(), kernels.end(), name);
  if (found == kernels.end()) return FakeGpuError::kNotFound;
  *function = &*found;
  return FindError(Driver().errors, "find_function");
}
int FakeSetFunctionAttribute(void* function, int attribute, int value) {
  constexpr int kLargeClustersAllowed = 14;
  if (attribute == kLargeClustersAllowed) {
    Driver().large_clusters_allowed[*static_cast<std::string*>(function)] = value != 0;
  } else {
    Driver().shared_bytes_allowed = value;
  }
  return FindError(Driver().errors, "set_function_attribute");
}
int FakeLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     void*, void** arguments, void**) {
  const auto* const bytes = static_cast<const std::byte*>(arguments[0]);
  FakeLaunch launch = {.kernel = *static_cast<const std::string*>(function),
                       .grid = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes},
                       .arguments = {},
                       .starts_early = std::exchange(Driver().next_starts_early, false)};
  launch.arguments.assign(bytes, bytes + ArgumentBytes(Driver(), launch.kernel));
  Driver().n_launched_alone += Driver().captures ? 0 : 1;
  return Enqueue("launch", [launch = std::move(launch)] {
    FakeGpuDriver& driver = Driver();
    driver.corrupts_next_download = launch.kernel == driver.corrupts;
    return launch.kernel == driver.fails ? FakeGpuError::kLaunchFailure : RunLaunch(driver, launch);
  });
}

int FakeBeginCapture(void*, int) {
  const int error = FindError(Driver().errors, "begin_capture");
  Driver().captures = error == 0;
  return error;
}
int FakeEndCapture(void*, void** graph) {
  Driver().captures = false;
  FakeGraph captured = {std::exchange(Driver().captured, {}),
                        std::exchange(Driver().captured_events, {})};
  return MakeOne("end_capture", "graph", [&] { *graph = new FakeGraph(std::move(captured)); });
}
int FakeReadyGraph(void** ready, void* graph, unsigned long long) {
  return MakeOne("ready_graph", "ready graph", [&] { *ready = new FakeGraph(GraphAt(graph)); });
}
int FakeFreeGraph(void* graph) { return FreeGraph("graph", graph); }
int FakeFreeReadyGraph(void* ready) { return FreeGraph("ready graph", ready); }
int FakeLaunchGraph(void* ready, void*) {
  FakeGpuDriver& driver = Driver();
  if (const int error = FindError(driver.errors, "launch_graph"); error != 0) return error;
  EndLaunchesAlone(driver);
  ++driver.n_graphs_launched;
  driver.host_ms += driver.call_ms;
  Pass(driver, 0);
  auto event = GraphAt(ready).events.begin();
  for (const std::function<void()>& run : GraphAt(ready).work) {
    if (run == nullptr) {
      Record(*event++);
      continue;
    }
    driver.queue.push_back(run);
    ++driver.n_enqueued;
    Pass(driver, 1);
  }
  return driver.failed;
}

// The names of the vendors. FAKE(Neutral) is the attribute that makes a name one of Neutral.
#define FAKE(Neutral) __attribute__((alias(#Neutral)))
decltype(FakeInitialize) cuInit FAKE(FakeInitialize), hipInit FAKE(FakeInitialize);
decltype(FakeCudaVersion) cuDriverGetVersion FAKE(FakeCudaVersion);
decltype(FakeHipVersion) hipRuntimeGetVersion FAKE(FakeHipVersion);
decltype(FakeErrorText) cuGetErrorString FAKE(FakeErrorText);
decltype(FakeErrorText) hipDrvGetErrorString FAKE(FakeErrorText);
decltype(FakeDeviceCount) cuDeviceGetCount FAKE(FakeDeviceCount);
decltype(FakeDeviceCount) hipGetDeviceCount FAKE(FakeDeviceCount);
decltype(FakeDevice) cuDeviceGet FAKE(FakeDevice), hipDeviceGet FAKE(FakeDevice);
decltype(FakeDeviceName) cuDeviceGetName FAKE(FakeDeviceName);
decltype(FakeDeviceName) hipDeviceGetName FAKE(FakeDeviceName);
decltype(FakeDeviceMemory) cuDeviceTotalMem_v2 FAKE(FakeDeviceMemory);
decltype(FakeDeviceMemory) hipDeviceTotalMem FAKE(FakeDeviceMemory);
decltype(FakeCudaAttribute) cuDeviceGetAttribute FAKE(FakeCudaAttribute);
decltype(FakeHipAttribute) hipDeviceGetAttribute FAKE(FakeHipAttribute);
decltype(FakeDeviceProperties) hipGetDevicePropertiesR0600 FAKE(FakeDeviceProperties);
decltype(FakeRetainContext) cuDevicePrimaryCtxRetain FAKE(FakeRetainContext);
decltype(FakeReleaseContext) cuDevicePrimaryCtxRelease_v2 FAKE(FakeReleaseContext);
decltype(FakeSetContext) cuCtxSetCurrent FAKE(FakeSetContext);
decltype(FakeSetDevice) hipSetDevice FAKE(FakeSetDevice);
decltype(FakeMemory) cuMemGetInfo_v2 FAKE(FakeMemory), hipMemGetInfo FAKE(FakeMemory);
decltype(FakeAllocate) cuMemAlloc_v2 FAKE(FakeAllocate), hipMalloc FAKE(FakeAllocate);
decltype(FakeFree) cuMemFree_v2 FAKE(FakeFree), hipFree FAKE(FakeFree);
decltype(FakeAllocateHost) cuMemHostAlloc FAKE(FakeAllocateHost);
decltype(FakeAllocateHost) hipHostMalloc FAKE(FakeAllocateHost);
decltype(FakeFreeHost) cuMemFreeHost FAKE(FakeFreeHost), hipHostFree FAKE(FakeFreeHost);
decltype(FakeAddressOfHost) cuMemHostGetDevicePointer_v2 FAKE(FakeAddressOfHost);
decltype(FakeAddressOfHost) hipHostGetDevicePointer FAKE(FakeAddressOfHost);
decltype(FakeRegisterHost) cuMemHostRegister_v2 FAKE(FakeRegisterHost);
decltype(FakeRegisterHost) hipHostRegister FAKE(FakeRegisterHost);
decltype(FakeUnregisterHost) cuMemHostUnregister FAKE(FakeUnregisterHost);
decltype(FakeUnregisterHost) hipHostUnregister FAKE(FakeUnregisterHost);
decltype(FakeFill) cuMemsetD8Async FAKE(FakeFill), hipMemsetD8Async FAKE(FakeFill);
decltype(FakeUpload) cuMemcpyHtoDAsync_v2 FAKE(FakeUpload);
decltype(FakeUpload) hipMemcpyHtoDAsync FAKE(FakeUpload);
decltype(FakeDownload) cuMemcpyDtoHAsync_v2 FAKE(FakeDownload);
decltype(FakeDownload) hipMemcpyDtoHAsync FAKE(FakeDownload);
decltype(FakeMakeStream) cuStreamCreate FAKE(FakeMakeStream);
decltype(FakeMakeStream) hipStreamCreateWithFlags FAKE(FakeMakeStream);
decltype(FakeWaitForStream) cuStreamSynchronize FAKE(FakeWaitForStream);
decltype(FakeWaitForStream) hipStreamSynchronize FAKE(FakeWaitForStream);
decltype(FakeFreeStream) cuStreamDestroy_v2 FAKE(FakeFreeStream);
decltype(FakeFreeStream) hipStreamDestroy FAKE(FakeFreeStream);
decltype(FakeMakeEvent) cuEventCreate FAKE(FakeMakeEvent);
decltype(FakeMakeEvent) hipEventCreateWithFlags FAKE(FakeMakeEvent);
decltype(FakeRecordEventInGraph) cuEventRecordWithFlags FAKE(FakeRecordEventInGraph);
decltype(FakeRecordEvent) cuEventRecord FAKE(FakeRecordEvent);
decltype(FakeRecordEvent) hipEventRecord FAKE(FakeRecordEvent);
decltype(FakeWaitForEvent) cuEventSynchronize FAKE(FakeWaitForEvent);
decltype(FakeWaitForEvent) hipEventSynchronize FAKE(FakeWaitForEvent);
decltype(FakeElapsedTime) cuEventElapsedTime FAKE(FakeElapsedTime);
decltype(FakeElapsedTime) hipEventElapsedTime FAKE(FakeElapsedTime);
decltype(FakeFreeEvent) cuEventDestroy_v2 FAKE(FakeFreeEvent);
decltype(FakeFreeEvent) hipEventDestroy FAKE(FakeFreeEvent);
decltype(FakeLoadModule) cuModuleLoadData FAKE(FakeLoadModule);
decltype(FakeLoadModule) hipModuleLoadData FAKE(FakeLoadModule);
decltype(FakeUnloadModule) cuModuleUnload FAKE(FakeUnloadModule);
decltype(FakeUnloadModule) hipModuleUnload FAKE(FakeUnloadModule);
decltype(FakeFindFunction) cuModuleGetFunction FAKE(FakeFindFunction);
decltype(FakeFindFunction) hipModuleGetFunction FAKE(FakeFindFunction);
decltype(FakeSetFunctionAttribute) cuFuncSetAttribute FAKE(FakeSetFunctionAttribute);
decltype(FakeLaunchKernel) cuLaunchKernel FAKE(FakeLaunchKernel);
decltype(FakeLaunchKernel) hipModuleLaunchKernel FAKE(FakeLaunchKernel);
decltype(FakeBeginCapture) cuStreamBeginCapture_v2 FAKE(FakeBeginCapture);
decltype(FakeBeginCapture) hipStreamBeginCapture FAKE(FakeBeginCapture);
decltype(FakeEndCapture) cuStreamEndCapture FAKE(FakeEndCapture);
decltype(FakeEndCapture) hipStreamEndCapture FAKE(FakeEndCapture);
decltype(FakeReadyGraph) cuGraphInstantiateWithFlags FAKE(FakeReadyGraph);
decltype(FakeReadyGraph) hipGraphInstantiateWithFlags FAKE(FakeReadyGraph);
decltype(FakeFreeGraph) cuGraphDestroy FAKE(FakeFreeGraph), hipGraphDestroy FAKE(FakeFreeGraph);
decltype(FakeLaunchGraph) cuGraphLaunch FAKE(FakeLaunchGraph), hipGraphLaunch FAKE(FakeLaunchGraph);
decltype(FakeFreeReadyGraph) cuGraphExecDestroy FAKE(FakeFreeReadyGraph);
decltype(FakeFreeReadyGraph) hipGraphExecDestroy FAKE(FakeFreeReadyGraph);
#undef FAKE

}  // extern "C"
