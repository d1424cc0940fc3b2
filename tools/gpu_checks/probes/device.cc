#include "tools/gpu_checks/probes/device.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "kernels/gpu/limits.h"
#include "kernels/vendor/gpu_vendor.h"

namespace fathom::probe {
namespace {

constexpr int kNoCode = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU
// CUdevice_attribute
constexpr int kCacheBytes = 38;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
// CUfunction_attribute
constexpr int kMaxDynamicSharedBytes = 8;
constexpr int kLargeClustersAllowed = 14;

LaunchConfiguration Configure(const GpuGrid& grid, void* stream) {
  return {.grid = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1},
          .block = {static_cast<unsigned>(grid.threads), 1, 1},
          .shared_bytes = static_cast<unsigned>(grid.shared_bytes),
          .stream = stream};
}

}  // namespace

ProbeDevice::~ProbeDevice() {
  FreeMemory();
  for (void* const module : modules_) api_.unload_module(module);
  for (void* const mark : marks_) {
    if (mark != nullptr) api_.free_event(mark);
  }
  if (stream_ != nullptr) api_.free_stream(stream_);
}

Status ProbeDevice::Ended(std::string_view what, int error) const {
  if (error == 0) return {};
  return MakeError(ErrorCode::kUnavailable, "CUDA, {}: {}", what, ErrorText(api_, error));
}

void ProbeDevice::Keep(std::string_view what, int error) {
  if (IsUsable()) status_ = Ended(what, error);
}

Status ProbeDevice::OpenLibrary() {
  const std::string file = CudaVendor().libraries.front();
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return MakeError(ErrorCode::kUnavailable, "CUDA: expected a driver, found none ({})",
                     ::dlerror());
  }
  api_ = FindDriverApi(library, GpuVendorName::kCuda);
  hopper_ = FindHopperApi(library);
  const char* const missing = api_.missing != nullptr ? api_.missing : hopper_.missing;
  if (missing != nullptr) {
    return MakeError(ErrorCode::kUnavailable, "CUDA: expected the function {}, found none",
                     missing);
  }
  return Ended("starting the driver", api_.initialize(0));
}

Status ProbeDevice::ReadAttributes(int number) {
  int device = 0;
  int error = api_.device(&device, number);
  const auto read = [&](int attribute) {
    int value = 0;
    if (error == 0) error = api_.device_attribute(&value, attribute, device);
    return value;
  };
  capability_ = 10 * read(kCapabilityMajor) + read(kCapabilityMinor);
  n_multiprocessors_ = read(CudaVendor().n_multiprocessors);
  cache_bytes_ = read(kCacheBytes);
  char name[256] = {};
  if (error == 0) error = api_.device_name(name, sizeof(name), device);
  name_ = name;
  return Ended("reading the attributes of the device", error);
}

Status ProbeDevice::LoadFatbins(std::span<const std::byte* const> fatbins) {
  for (const std::byte* const fatbin : fatbins) {
    void* module = nullptr;
    const int error = api_.load_module(&module, fatbin);
    if (error == kNoCode) continue;
    if (Status s = Ended("loading the kernels", error); !s) return s;
    modules_.push_back(module);
  }
  return {};
}

Status ProbeDevice::Open(int number, std::span<const std::byte* const> fatbins) {
  if (Status s = OpenLibrary(); !s) return s;
  if (Status s = Ended("opening the device", current_.Open(number)); !s) return s;
  if (Status s = Ended("opening the device", current_.Set()); !s) return s;
  if (Status s = ReadAttributes(number); !s) return s;
  int error = api_.make_stream(&stream_, DriverApi::kNonBlocking);
  for (void*& mark : marks_) {
    if (error == 0) error = api_.make_event(&mark, DriverApi::kWithTime);
  }
  if (Status s = Ended("a stream and its events", error); !s) return s;
  return LoadFatbins(fatbins);
}

ProbeDevice::Kernel& ProbeDevice::KernelNamed(std::string_view name) {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  Kernel& kernel = kernels_[std::string(name)];
  for (void* const module : modules_) {
    void* function = nullptr;
    if (api_.find_function(&function, module, std::string(name).c_str()) == 0) {
      kernel.function = function;
    }
  }
  return kernel;
}

std::string ProbeDevice::WhyMissing(std::string_view kernel) {
  if (FindKernel(kernel) != nullptr) return "";
  return fmt::format("the kernel {} is compiled for sm_90a: found {} of compute capability {}.{}",
                     kernel, name_, capability_ / 10, capability_ % 10);
}

void ProbeDevice::Note(std::string_view kernel) {
  if (std::ranges::find(launched_, kernel) != launched_.end()) return;
  launched_.push_back(kernels_.find(kernel)->first);
}

std::string ProbeDevice::LaunchedKernels() const {
  return launched_.empty() ? "copies" : fmt::format("{}", fmt::join(launched_, ", "));
}

void* ProbeDevice::Allocate(std::int64_t bytes) {
  void* address = nullptr;
  if (!IsUsable()) return nullptr;
  Keep(fmt::format("{} bytes of memory", bytes),
       api_.allocate(&address, static_cast<std::size_t>(bytes)));
  if (address != nullptr) memory_.push_back(address);
  return address;
}

void* ProbeDevice::AllocateHost(std::int64_t bytes) {
  void* address = nullptr;
  if (!IsUsable()) return nullptr;
  Keep(fmt::format("{} bytes of pinned memory", bytes),
       api_.allocate_host(&address, static_cast<std::size_t>(bytes), CudaVendor().host_flags));
  if (address != nullptr) host_memory_.push_back(address);
  return address;
}

void ProbeDevice::FreeMemory() {
  for (void* const address : memory_) api_.free(address);
  for (void* const address : host_memory_) api_.free_host(address);
  for (const Graph& graph : graphs_) api_.free_ready_graph(graph.ready);
  memory_.clear();
  host_memory_.clear();
  graphs_.clear();
}

void ProbeDevice::Fill(void* to, unsigned char value, std::int64_t bytes) {
  if (!IsUsable()) return;
  Keep("filling memory", api_.fill(to, value, static_cast<std::size_t>(bytes), stream_));
}

void ProbeDevice::Upload(void* to, std::span<const std::byte> from) {
  if (!IsUsable()) return;
  Keep("a copy", api_.upload(to, from.data(), from.size(), stream_));
}

void ProbeDevice::Download(std::span<std::byte> to, const void* from) {
  if (!IsUsable()) return;
  const int error = api_.download(to.data(), from, to.size(), stream_);
  if (error != 0) Keep(LaunchedKernels(), error);
  Wait();
}

void ProbeDevice::AllowShared(Kernel& kernel, std::int64_t bytes) {
  if (bytes <= std::max(kMaxSharedBytes, kernel.shared_bytes)) return;
  kernel.shared_bytes = bytes;
  Keep("dynamic shared memory", api_.set_function_attribute(kernel.function, kMaxDynamicSharedBytes,
                                                            static_cast<int>(bytes)));
}

void ProbeDevice::LaunchBytes(std::string_view name, const GpuGrid& grid, const void* arguments,
                              const LaunchOptions& options) {
  if (!IsUsable()) return;
  Kernel& kernel = KernelNamed(name);
  if (kernel.function == nullptr) {
    status_ = MakeError(ErrorCode::kUnavailable, "{}", WhyMissing(name));
    return;
  }
  AllowShared(kernel, grid.shared_bytes);
  Note(name);
  // The driver copies the arguments, and does not change them.
  void* address = const_cast<void*>(arguments);
  LaunchConfiguration configuration = Configure(grid, stream_);
  if (!options.starts_early) {
    const auto& [x, y, z] = configuration.grid;
    Keep(name, api_.launch(kernel.function, x, y, z, configuration.block[0], 1, 1,
                           configuration.shared_bytes, stream_, &address, nullptr));
    return;
  }
  LaunchAttribute attribute = {.id = LaunchAttribute::kStartsEarly, .value = {1}};
  configuration.attributes = &attribute;
  configuration.n_attributes = 1;
  Keep(name, hopper_.launch(&configuration, kernel.function, &address, nullptr));
}

void ProbeDevice::Wait() {
  if (!IsUsable()) return;
  const int error = api_.wait_for_stream(stream_);
  if (error != 0) Keep(LaunchedKernels(), error);
  launched_.clear();
}

int ProbeDevice::WaitInThread() const {
  const int error = current_.Set();
  return error != 0 ? error : api_.wait_for_stream(stream_);
}

void ProbeDevice::Mark(int mark) {
  if (!IsUsable()) return;
  Keep("an event", api_.record_event(marks_[mark], stream_));
}

double ProbeDevice::SecondsBetweenMarks() {
  float milliseconds = 0.0f;
  Wait();
  if (IsUsable()) {
    Keep("an event", api_.elapsed_time(&milliseconds, marks_[0], marks_[1]));
  }
  return static_cast<double>(milliseconds) * 1e-3;
}

void ProbeDevice::BeginGraph() {
  if (!IsUsable()) return;
  launched_before_graph_ = std::exchange(launched_, {});
  Keep("beginning a graph", api_.begin_capture(stream_, DriverApi::kOfThisThread));
}

void* ProbeDevice::EndGraph() {
  if (!IsUsable()) return nullptr;
  const std::string what = "a graph with " + LaunchedKernels();
  Graph graph = {.kernels = std::exchange(launched_, std::exchange(launched_before_graph_, {}))};
  void* captured = nullptr;
  Keep(what, api_.end_capture(stream_, &captured));
  if (!IsUsable()) return nullptr;
  Keep(what, api_.ready_graph(&graph.ready, captured, 0));
  api_.free_graph(captured);
  if (!IsUsable()) return nullptr;
  graphs_.push_back(graph);
  return graph.ready;
}

void ProbeDevice::LaunchGraph(void* graph) {
  if (!IsUsable()) return;
  for (const std::string_view kernel : std::ranges::find(graphs_, graph, &Graph::ready)->kernels) {
    Note(kernel);
  }
  Keep(LaunchedKernels(), api_.launch_graph(graph, stream_));
}

int ProbeDevice::AllowLargeClusters(std::string_view kernel) {
  return api_.set_function_attribute(FindKernel(kernel), kLargeClustersAllowed, 1);
}

int ProbeDevice::CountActiveClusters(std::string_view kernel, const GpuGrid& grid, int cluster,
                                     std::string& why) {
  void* const function = FindKernel(kernel);
  AllowShared(KernelNamed(kernel), grid.shared_bytes);
  LaunchConfiguration configuration = Configure(grid, stream_);
  LaunchAttribute attribute = {.id = LaunchAttribute::kClusterDimension,
                               .value = {static_cast<unsigned>(cluster), 1, 1}};
  configuration.attributes = &attribute;
  configuration.n_attributes = 1;
  int n_clusters = 0;
  const int error = hopper_.most_active_clusters(&n_clusters, function, &configuration);
  if (error == 0) return n_clusters;
  why = ErrorText(api_, error);
  return -1;
}

}  // namespace fathom::probe
