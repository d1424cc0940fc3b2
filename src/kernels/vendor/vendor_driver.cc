#include "kernels/vendor/vendor_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/vendor/current_device.h"
#include "kernels/vendor/launch_graphs.h"
#include "kernels/vendor/pages_in_place.h"
#include "kernels/vendor/staging_ring.h"

namespace fathom::kernels {
namespace {

constexpr std::size_t kKernels = std::size(kGpuKernelNames);
// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kMaxDynamicSharedBytes = 8;

double ToGib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string DescribeLaunch(GpuKernel kernel, const GpuGrid& grid) {
  return fmt::format("kernel {}, grid {} x {} of {} threads",
                     kGpuKernelNames[static_cast<std::size_t>(kernel)], grid.x, grid.y,
                     grid.threads);
}

class VendorDriver : public GpuDriver {
 public:
  VendorDriver(const GpuVendor& vendor, const DriverApi& api, const DeviceToOpen& opened,
               const GpuDriverOptions& options)
      : vendor_(vendor),
        api_(api),
        device_(opened.device),
        title_(opened.title),
        waits_after_each_(options.waits_after_each),
        current_(api_),
        in_place_(api_, vendor.register_flags),
        staging_(api_),
        graphs_(api_, !options.waits_after_each &&
                          options.uses_graphs.value_or(vendor.has_right_graphs)) {
    device_.uses_graphs = graphs_.makes_graphs();
  }
  ~VendorDriver() override;

  // Called once, before the other functions.
  Status Open(int number, const CodeObjects& code);

  const GpuDevice& device() const override { return device_; }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override;
  Status ReadInPlace(std::span<const std::span<const std::byte>> pieces) override;
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void Launch(GpuKernel kernel, const GpuGrid& grid, std::span<const std::byte> arguments) override;
  Status Synchronize() override;
  Ticket Mark() override;
  Status Wait(Ticket ticket) override;
  Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) override;

 private:
  class DriverBuffer;
  class Timer;

  struct Kernel {
    void* function = nullptr;
    std::int64_t allowed_shared_bytes = 0;  // dynamic, where a vendor must be told
  };
  // Tickets whose number is equal modulo kEvents share an event: waiting for an old ticket then
  // waits for the newer one.
  static constexpr std::size_t kEvents = 64;

  Status OpenDevice(int number);
  Status LoadKernels(const CodeObjects& code);
  Status FindKernel(std::size_t kernel);
  int AllocateAddress(void** address, std::size_t bytes, MemoryKind kind) const;
  Error OutOfMemory(std::size_t bytes, MemoryKind kind) const;
  Error Failure(std::string_view what, int error) const;
  // Stores the first error of work. Returns true if there is none so far.
  bool Keep(std::string_view what, int error);
  // Sets the device of the calling thread. Returns true if there was no error so far.
  bool SetDevice() { return failure_ && Keep("", current_.Set()); }
  // Enqueues the collected launches. Returns true if the calling thread may enqueue more: there was
  // no error.
  bool Ready() { return SetDevice() && FlushLaunches(); }
  bool FlushLaunches();
  // Stores an error of a wait, which may come from any work before the wait.
  bool KeepWaited(int error);
  // Waits for the work that was just enqueued, if every piece is to be waited for.
  void WaitAfter(std::string_view what);
  Status CheckThreads(GpuKernel kernel, const GpuGrid& grid) const;
  Status AllowShared(Kernel& kernel, std::int64_t bytes);

  const GpuVendor vendor_;
  const DriverApi api_;
  GpuDevice device_;
  const std::string title_;
  const bool waits_after_each_;
  CurrentDevice current_;
  void* stream_ = nullptr;
  PagesInPlace in_place_;
  StagingRing staging_;
  LaunchGraphs graphs_;
  std::array<void*, kEvents> events_{};
  std::uint64_t n_marks_ = 0;
  std::vector<void*> modules_;
  std::array<Kernel, kKernels> kernels_{};
  Status failure_;  // the first error of work
};

// Memory of a device or pinned memory of the host.
class VendorDriver::DriverBuffer : public Buffer {
 public:
  // Takes ownership of the memory.
  DriverBuffer(VendorDriver& driver, void* address, std::int64_t bytes, MemoryKind kind)
      : Buffer(static_cast<std::byte*>(address), bytes, IsOnHost(kind)),
        driver_(driver),
        free_(IsOnHost(kind) ? driver.api_.free_host : driver.api_.free) {}
  // Collected launches may use the memory; the driver waits for enqueued work.
  ~DriverBuffer() override {
    if (!driver_.Ready()) driver_.current_.Set();
    free_(address());
  }

 private:
  VendorDriver& driver_;
  int (*free_)(void* address);
};

// Owns an event for every mark.
class VendorDriver::Timer : public GpuTimer {
 public:
  // is_enqueued_with_launches: marks are collected with the launches around them.
  Timer(VendorDriver& driver, bool is_enqueued_with_launches)
      : driver_(driver), is_enqueued_with_launches_(is_enqueued_with_launches) {}
  ~Timer() override {
    driver_.Ready();  // collected marks use the events
    driver_.current_.Set();
    for (void* const event : events_) driver_.api_.free_event(event);
  }

  // Returns the number of an error. Called once, before the other functions.
  int MakeEvents(int n_marks) {
    int error = driver_.current_.Set();
    for (int i = 0; i < n_marks && error == 0; ++i) {
      void* event = nullptr;
      error = driver_.api_.make_event(&event, DriverApi::kWithTime);
      if (error == 0) events_.push_back(event);
    }
    return error;
  }

  void Mark(int mark) override {
    if (is_enqueued_with_launches_) {
      const bool is_first = mark % 2 == 0;  // marks 2 i and 2 i + 1 stay together
      if (!driver_.SetDevice() ||
          (is_first && driver_.graphs_.room() < 3 && !driver_.FlushLaunches())) {
        return;
      }
      driver_.graphs_.AddMark(Event(mark));
    } else if (driver_.Ready()) {
      driver_.Keep("a mark of its work", driver_.api_.record_event(Event(mark), driver_.stream_));
    }
  }

  Result<double> SecondsBetween(int first, int last) override {
    float milliseconds = 0;
    for (const int mark : {first, last}) {
      if (driver_.Ready()) driver_.KeepWaited(driver_.api_.wait_for_event(Event(mark)));
    }
    if (driver_.failure_) {
      driver_.Keep("the time of its work",
                   driver_.api_.elapsed_time(&milliseconds, Event(first), Event(last)));
    }
    if (!driver_.failure_) return Unexpected(driver_.failure_.error());
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  void* Event(int mark) const { return events_.at(static_cast<std::size_t>(mark)); }

  VendorDriver& driver_;
  const bool is_enqueued_with_launches_;
  std::vector<void*> events_;
};

// Ignores errors: the device may be lost.
VendorDriver::~VendorDriver() {
  current_.Set();
  if (stream_ != nullptr) api_.wait_for_stream(stream_);
  graphs_.Clear();
  for (void* const module : modules_) api_.unload_module(module);
  for (void* const event : events_) {
    if (event != nullptr) api_.free_event(event);
  }
  if (stream_ != nullptr) api_.free_stream(stream_);
}

Error VendorDriver::Failure(std::string_view what, int error) const {
  return {
      error == DriverApi::kOutOfMemory ? ErrorCode::kOutOfMemory : ErrorCode::kUnavailable,
      fmt::format("{}{}{}: {}", title_, what.empty() ? "" : ", ", what, ErrorText(api_, error))};
}

bool VendorDriver::Keep(std::string_view what, int error) {
  if (error != 0 && failure_) failure_ = Unexpected(Failure(what, error));
  return failure_.has_value();
}

Status VendorDriver::Open(int number, const CodeObjects& code) {
  if (Status opened = OpenDevice(number); !opened) return opened;
  return LoadKernels(code);
}

Status VendorDriver::OpenDevice(int number) {
  std::size_t free = 0;
  std::size_t total = 0;
  int error = current_.Open(number);
  if (error == 0) error = current_.Set();
  if (error == 0) error = api_.memory(&free, &total);
  if (error == 0) error = api_.make_stream(&stream_, DriverApi::kNonBlocking);
  for (void*& event : events_) {
    if (error == 0) error = api_.make_event(&event, DriverApi::kWithoutTime);
  }
  if (error == 0) error = staging_.Allocate(vendor_.host_flags);
  device_.free_bytes = static_cast<std::int64_t>(free);
  device_.reads_weights_in_place = error == 0 && device_.is_integrated && in_place_.IsPossible();
  if (error != 0) return Unexpected(Failure("opening it", error));
  return {};
}

Status VendorDriver::LoadKernels(const CodeObjects& code) {
  for (const CodeObject& object : code.objects) {
    if (!object.architecture.empty() && object.architecture != device_.architecture) continue;
    void* module = nullptr;
    if (const int error = api_.load_module(&module, object.begin); error != 0) {
      return Unexpected(Failure("loading the kernels", error));
    }
    modules_.push_back(module);
  }
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
    if (Status found = FindKernel(kernel); !found) return found;
  }
  return {};
}

Status VendorDriver::FindKernel(std::size_t kernel) {
  const std::string name(kGpuKernelNames[kernel]);
  for (void* const module : modules_) {
    if (api_.find_function(&kernels_[kernel].function, module, name.c_str()) == 0) return {};
  }
  return MakeError(ErrorCode::kInvalidData, "{}: expected the kernel {} for {}, found none", title_,
                   name, device_.architecture);
}

Error VendorDriver::OutOfMemory(std::size_t bytes, MemoryKind kind) const {
  if (IsOnHost(kind)) {
    return {ErrorCode::kOutOfMemory,
            fmt::format("{}: expected {:.2f} GiB of memory of the host that can be pinned, found "
                        "less",
                        title_, ToGib(bytes))};
  }
  std::size_t free = 0;
  std::size_t total = 0;
  api_.memory(&free, &total);
  return {ErrorCode::kOutOfMemory,
          fmt::format("{}: expected {:.2f} GiB of free memory, found {:.2f} of {:.2f} GiB", title_,
                      ToGib(bytes), ToGib(free), ToGib(total))};
}

int VendorDriver::AllocateAddress(void** address, std::size_t bytes, MemoryKind kind) const {
  if (kind == MemoryKind::kDevice) return api_.allocate(address, bytes);
  return api_.allocate_host(
      address, bytes,
      kind == MemoryKind::kShared ? vendor_.host_flags : vendor_.read_only_host_flags);
}

Result<std::unique_ptr<Buffer>> VendorDriver::Allocate(std::int64_t bytes, MemoryKind kind) {
  if (const int error = current_.Set(); error != 0) return Unexpected(Failure("", error));
  const std::size_t size = static_cast<std::size_t>(std::max(bytes, std::int64_t{1}));
  void* address = nullptr;
  int error = AllocateAddress(&address, size, kind);
  if (error == DriverApi::kOutOfMemory) return Unexpected(OutOfMemory(size, kind));
  if (error != 0) return Unexpected(Failure("allocating memory", error));
  auto buffer = std::make_unique<DriverBuffer>(*this, address, bytes, kind);
  if (kind == MemoryKind::kDevice) {
    error = api_.fill(address, 0, size, stream_);
  } else {
    void* on_device = nullptr;
    error = api_.address_of_host(&on_device, address, 0);
    if (error == 0 && on_device != address) {
      return MakeError(ErrorCode::kUnsupported,
                       "{}: expected memory of the host at the same address on the device, found "
                       "another",
                       title_);
    }
    std::memset(address, 0, size);
  }
  if (error != 0) return Unexpected(Failure("allocating memory", error));
  return buffer;
}

Status VendorDriver::ReadInPlace(std::span<const std::span<const std::byte>> pieces) {
  int error = current_.Set();
  if (error == 0) error = in_place_.Add(pieces);
  if (error == 0) return {};
  return MakeError(ErrorCode::kOutOfMemory,
                   "{}: expected memory of the host that can be pinned for weights, found: {}",
                   title_, ErrorText(api_, error));
}

void VendorDriver::Upload(void* to, std::span<const std::byte> from) {
  if (!Ready()) return;
  Keep("a copy to it", staging_.Upload(static_cast<std::byte*>(to), from, stream_));
  WaitAfter("a copy to it");
}

void VendorDriver::Download(std::span<std::byte> to, const void* from) {
  if (to.empty() || !Ready()) return;
  Keep("a copy from it", api_.download(to.data(), from, to.size(), stream_));
  WaitAfter("a copy from it");
}

Status VendorDriver::CheckThreads(GpuKernel kernel, const GpuGrid& grid) const {
  if (grid.x <= vendor_.most_grid_threads / grid.threads) return {};
  return MakeError(ErrorCode::kUnsupported, "{}, {}: expected at most {} threads of a launch",
                   title_, DescribeLaunch(kernel, grid), vendor_.most_grid_threads);
}

Status VendorDriver::AllowShared(Kernel& kernel, std::int64_t bytes) {
  if (bytes > device_.shared_bytes) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: expected {} bytes of shared memory of a block, found {}", title_, bytes,
                     device_.shared_bytes);
  }
  if (bytes <= kernel.allowed_shared_bytes || api_.set_function_attribute == nullptr) return {};
  if (const int error = api_.set_function_attribute(kernel.function, kMaxDynamicSharedBytes,
                                                    static_cast<int>(bytes));
      error != 0) {
    return Unexpected(Failure("shared memory", error));
  }
  kernel.allowed_shared_bytes = bytes;
  return {};
}

void VendorDriver::Launch(GpuKernel kernel, const GpuGrid& grid,
                          std::span<const std::byte> arguments) {
  Check(grid.x >= 0 && grid.x <= std::numeric_limits<std::int32_t>::max(), "blocks of a launch");
  if (grid.x == 0 || grid.y == 0 || !SetDevice()) return;
  Kernel& launched = kernels_[static_cast<std::size_t>(kernel)];
  Status allowed = CheckThreads(kernel, grid);
  if (allowed) allowed = AllowShared(launched, grid.shared_bytes);
  if (!allowed) {
    failure_ = std::move(allowed);
    return;
  }
  graphs_.Add({.function = launched.function,
               .grid_x = static_cast<unsigned>(grid.x),
               .grid_y = static_cast<unsigned>(grid.y),
               .threads = static_cast<unsigned>(grid.threads),
               .shared_bytes = static_cast<unsigned>(grid.shared_bytes),
               .kernel = kernel},
              arguments);
  if (waits_after_each_) {
    FlushLaunches();
    WaitAfter(DescribeLaunch(kernel, grid));
  } else if (graphs_.room() == 0) {
    FlushLaunches();
  }
}

bool VendorDriver::FlushLaunches() {
  using Place = LaunchGraphs::Failure::Place;
  const auto [error, place, launch] = graphs_.Flush(stream_);
  if (error == 0) return failure_.has_value();
  switch (place) {
    case Place::kGraph:
      return Keep("a graph of kernels", error);
    case Place::kMark:
      return Keep("a mark of its work", error);
    case Place::kLaunch:
      break;
  }
  return Keep(DescribeLaunch(launch.kernel, {.x = launch.grid_x,
                                             .y = static_cast<int>(launch.grid_y),
                                             .threads = static_cast<int>(launch.threads)}),
              error);
}

bool VendorDriver::KeepWaited(int error) {
  if (error == 0 || !failure_ || waits_after_each_) return Keep("", error);
  Error failure = Failure("", error);
  failure.message += "; with FATHOM_GPU_SYNC=1 in the environment the error names the kernel";
  failure_ = Unexpected(std::move(failure));
  return false;
}

void VendorDriver::WaitAfter(std::string_view what) {
  if (waits_after_each_ && failure_) Keep(what, api_.wait_for_stream(stream_));
}

// Waits after an error too: copies to memory of the host may still be in flight.
Status VendorDriver::Synchronize() {
  if (!Ready()) current_.Set();
  KeepWaited(api_.wait_for_stream(stream_));
  return failure_;
}

Ticket VendorDriver::Mark() {
  const Ticket ticket = {++n_marks_};
  if (Ready()) {
    Keep("a mark of its work", api_.record_event(events_[ticket.number % kEvents], stream_));
  }
  return ticket;
}

// After an error, events are not recorded any more.
Status VendorDriver::Wait(Ticket ticket) {
  if (!Ready()) return Synchronize();
  KeepWaited(api_.wait_for_event(events_[ticket.number % kEvents]));
  return failure_;
}

Result<std::unique_ptr<GpuTimer>> VendorDriver::MakeTimer(int n_marks, TimedWork work) {
  const bool is_enqueued_with_launches = work == TimedWork::kSingleLaunches &&
                                         device_.uses_graphs &&
                                         api_.record_event_in_graph != nullptr;
  auto timer = std::make_unique<Timer>(*this, is_enqueued_with_launches);
  if (const int error = timer->MakeEvents(n_marks); error != 0) {
    return Unexpected(Failure("making a timer", error));
  }
  return timer;
}

}  // namespace

Result<std::unique_ptr<GpuDriver>> OpenVendorDriver(const GpuVendor& vendor, const DriverApi& api,
                                                    const CodeObjects& code,
                                                    const DeviceToOpen& device,
                                                    const GpuDriverOptions& options) {
  auto driver = std::make_unique<VendorDriver>(vendor, api, device, options);
  if (Status opened = driver->Open(device.number, code); !opened) return Unexpected(opened.error());
  return driver;
}

}  // namespace fathom::kernels
