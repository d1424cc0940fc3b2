#include "tests/emulator/emulator_driver.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/host_buffer.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/kernel_table.h"
#include "tests/emulator/page_watch.h"

namespace fathom::kernels {
namespace {

using emulator::BlockRunner;
using emulator::PageWatch;
using Progress = BlockRunner::Progress;

class EmulatorDriver;

// Devices that run at the same time.
struct Peers {
  std::vector<EmulatorDriver*> devices;
  bool access = false;  // access to each other's memory
};

class EmulatorDriver final : public GpuDriver {
 public:
  EmulatorDriver(const EmulatorOptions& options, std::shared_ptr<Peers> peers)
      : options_(options),
        peers_(std::move(peers)),
        arena_(options.memory_bytes),
        runner_(options.wave_size, options.shared_bytes, options.visiting, options.seed,
                options.asynchrony) {
    peers_->devices.push_back(this);
    Check(options.wave_size == 32 || options.wave_size == 64, "a wave of neither 32 nor 64");
    device_ = {.name = "emulator",
               .architecture = fmt::format("wave{}", options.wave_size),
               .wave_size = options.wave_size,
               .n_multiprocessors = 1,
               .memory_bytes = options.memory_bytes,
               .free_bytes = options.memory_bytes,
               .shared_bytes = options.shared_bytes,
               .is_integrated = options.is_integrated,
               .reads_weights_in_place = options.is_integrated};
  }
  ~EmulatorDriver() override {
    RunUntil(n_called_);
    std::erase(peers_->devices, this);
  }

  const GpuDevice& device() const override { return device_; }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override;
  // Kernels can access all memory of the host.
  Status ReadInPlace(std::span<const std::span<const std::byte>>) override { return {}; }
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void Launch(GpuKernel kernel, const GpuGrid& grid, std::span<const std::byte> arguments) override;
  void Launch(const EmulatedLaunch& launch);
  Status Synchronize() override { return Wait(Mark()); }
  Ticket Mark() override { return {n_called_}; }
  Status Wait(Ticket ticket) override;
  Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) override;

 private:
  class DeviceBuffer;
  class SharedBuffer;
  class Timer;

  // Aligned as kernels expect their argument struct to be.
  struct alignas(128) ArgumentPiece {
    std::byte bytes[128];
  };
  struct KernelCall {
    std::string_view name;
    emulator::Kernel code;
    GpuGrid grid;
    std::vector<ArgumentPiece> arguments;
    bool starts_early = false;
  };
  // A piece of work.
  struct Work {
    std::function<Progress()> run;  // called again until it has ended
    bool is_kernel = false;
    bool starts_early = false;
  };

  void Add(Work work);
  void AddOnce(std::function<void()> run);
  // Runs the work of the first `number` calls, which the host waits for.
  void RunUntil(std::uint64_t number);
  void RunWaiting(std::uint64_t number);
  bool HasRun(std::uint64_t number) const { return n_called_ - waiting_.size() >= number; }
  // Runs the first piece of work for one turn. Returns false if it could not continue.
  bool Step();
  // Runs the kernel that is the first piece of work for one turn.
  Progress RunKernel(const KernelCall& call);
  Progress StepKernel();
  // Runs the part of a kernel that may run before earlier kernels have ended.
  void RunEarly();
  // Returns true if a kernel that starts early may follow the first piece of work.
  bool MayBeOverlapped() const;
  // Returns the memory that kernels can use.
  std::vector<emulator::Arena*> Reachable() const;
  std::string Describe(std::byte* address) const;
  // Unblocks kernels once no device can continue; reports a deadlock if none can be unblocked.
  void Unblock();

  EmulatorOptions options_;
  std::shared_ptr<Peers> peers_;
  GpuDevice device_;
  emulator::Arena arena_;
  BlockRunner runner_;
  std::deque<Work> waiting_;
  bool runs_kernel_ = false;           // the first piece of work is a kernel that has begun
  emulator::WrittenPages written_;     // written by that kernel, if it may be overlapped
  emulator::WrittenPages unfinished_;  // written by earlier kernels that may still run
  std::uint64_t n_called_ = 0;
  Status status_;  // the first error
};

class EmulatorDriver::DeviceBuffer : public Buffer {
 public:
  DeviceBuffer(EmulatorDriver& driver, std::byte* address, std::int64_t bytes)
      : Buffer(address, bytes, /*on_host=*/false), driver_(driver) {}
  ~DeviceBuffer() override {
    driver_.RunUntil(driver_.n_called_);
    driver_.arena_.Free(address());
  }

 private:
  EmulatorDriver& driver_;
};

class EmulatorDriver::SharedBuffer : public Buffer {
 public:
  SharedBuffer(EmulatorDriver& driver, std::unique_ptr<Buffer> memory)
      : Buffer(memory->address(), memory->bytes(), /*on_host=*/true),
        driver_(driver),
        memory_(std::move(memory)) {}
  ~SharedBuffer() override { driver_.RunUntil(driver_.n_called_); }

 private:
  EmulatorDriver& driver_;
  std::unique_ptr<Buffer> memory_;
};

// Measures by the clock of the host, when the work runs.
class EmulatorDriver::Timer : public GpuTimer {
 public:
  Timer(EmulatorDriver& driver, int n_marks)
      : driver_(driver), times_(static_cast<std::size_t>(n_marks)) {}
  ~Timer() override { driver_.RunUntil(driver_.n_called_); }

  void Mark(int mark) override {
    Clock::time_point& time = times_.at(static_cast<std::size_t>(mark));
    driver_.AddOnce([&time] { time = Clock::now(); });
  }
  Result<double> SecondsBetween(int first, int last) override {
    if (Status ended = driver_.Synchronize(); !ended) return Unexpected(ended.error());
    const std::chrono::duration<double> seconds =
        times_.at(static_cast<std::size_t>(last)) - times_.at(static_cast<std::size_t>(first));
    return seconds.count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  EmulatorDriver& driver_;
  std::vector<Clock::time_point> times_;
};

Result<std::unique_ptr<Buffer>> EmulatorDriver::Allocate(std::int64_t bytes, MemoryKind kind) {
  if (IsOnHost(kind)) {
    Result<std::unique_ptr<Buffer>> memory = AllocateHostBuffer(bytes);
    if (!memory) return memory;
    return std::make_unique<SharedBuffer>(*this, *std::move(memory));
  }
  std::byte* const memory = arena_.Allocate(bytes);
  if (memory == nullptr) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "memory of the emulated device: expected {} bytes, found {} of {} free", bytes,
                     arena_.free_bytes(), options_.memory_bytes);
  }
  return std::make_unique<DeviceBuffer>(*this, memory, bytes);
}

void EmulatorDriver::Upload(void* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  AddOnce([to, copy = std::vector(from.begin(), from.end())] {
    std::memcpy(to, copy.data(), copy.size());
  });
}

void EmulatorDriver::Download(std::span<std::byte> to, const void* from) {
  if (to.empty()) return;
  AddOnce([to, from] { std::memcpy(to.data(), from, to.size()); });
}

void EmulatorDriver::Launch(GpuKernel kernel, const GpuGrid& grid,
                            std::span<const std::byte> arguments) {
  Launch({.name = kGpuKernelNames[static_cast<std::size_t>(kernel)],
          .kernel = emulator::FindKernel(kernel),
          .grid = grid,
          .arguments = arguments});
}

void EmulatorDriver::Launch(const EmulatedLaunch& launch) {
  Check(launch.arguments.size() == launch.kernel.argument_bytes,
        "the size of a kernel's arguments");
  if (launch.grid.x == 0 || launch.grid.y == 0) return;
  KernelCall call = {.name = launch.name,
                     .code = launch.kernel,
                     .grid = launch.grid,
                     .starts_early = launch.starts_early};
  call.arguments.resize(DivideUp(launch.arguments.size(), sizeof(ArgumentPiece)));
  std::memcpy(call.arguments.data(), launch.arguments.data(), launch.arguments.size());
  Add({.run = [this, call = std::move(call)] { return RunKernel(call); },
       .is_kernel = true,
       .starts_early = launch.starts_early});
}

void EmulatorDriver::AddOnce(std::function<void()> run) {
  Add({.run = [this, run = std::move(run)] {
    run();
    unfinished_.clear();
    return Progress::kEnded;
  }});
}

void EmulatorDriver::Add(Work work) {
  // A kernel runs only when it is known whether it will be overlapped.
  const std::uint64_t runs_now = n_called_ + (work.is_kernel ? 0 : 1);
  ++n_called_;
  waiting_.push_back(std::move(work));
  // With several devices, this may wait for work of other devices that is enqueued later.
  if (!options_.runs_when_awaited && peers_->devices.size() == 1) {
    RunUntil(runs_now);
  }
}

Progress EmulatorDriver::RunKernel(const KernelCall& call) {
  if (!runs_kernel_) {
    runner_.Begin(call.name, call.code, call.grid, call.arguments.data(), call.starts_early);
    runs_kernel_ = true;
    if (call.starts_early) {
      RunEarly();
    }
  }
  std::optional<PageWatch> watch;
  if (MayBeOverlapped()) {
    watch.emplace(Reachable(), [this, name = call.name](std::byte* address, bool) {
      written_.emplace(PageWatch::PageOf(address), name);
    });
    watch->Ignore(written_);
  }
  const Progress progress = StepKernel();
  if (progress == Progress::kEnded) {
    runs_kernel_ = false;
    status_ = runner_.status();
    // The next kernel may begin before this one has waited.
    if (runner_.StartsNextEarly()) {
      written_.merge(unfinished_);
    }
    unfinished_ = std::exchange(written_, {});
  }
  return progress;
}

// A single device runs until it ends or is stuck; several devices take turns.
Progress EmulatorDriver::StepKernel() {
  Progress progress = runner_.Step();
  while (peers_->devices.size() == 1 &&
         (progress == Progress::kMoved || (progress == Progress::kStuck && runner_.Unblock()))) {
    progress = runner_.Step();
  }
  return progress;
}

void EmulatorDriver::RunEarly() {
  PageWatch watch(Reachable(), [this](std::byte* address, bool writes) {
    emulator::Block::Running().NoteEarlyUse(
        fmt::format("{} {}", writes ? "writes" : "reads", Describe(address)));
  });
  watch.Hide(unfinished_);
  runner_.RunEarly();
}

bool EmulatorDriver::MayBeOverlapped() const {
  if (waiting_.size() > 1) return waiting_[1].starts_early;
  // The host has waited for a kernel that runs without a next one, if no other device lets it run.
  return peers_->devices.size() > 1;
}

std::vector<emulator::Arena*> EmulatorDriver::Reachable() const {
  std::vector<emulator::Arena*> arenas;
  for (EmulatorDriver* const device : peers_->devices) {
    if (device == this || peers_->access) {
      arenas.push_back(&device->arena_);
    }
  }
  return arenas;
}

std::string EmulatorDriver::Describe(std::byte* address) const {
  std::string place;
  for (const emulator::Arena* const arena : Reachable()) {
    if (arena->HasUsed(address)) {
      place = arena->Describe(address);
    }
  }
  const auto writer = unfinished_.find(PageWatch::PageOf(address));
  if (writer == unfinished_.end()) return place;
  return fmt::format("{}, in a page that kernel {} writes", place, writer->second);
}

bool EmulatorDriver::Step() {
  if (waiting_.empty()) return false;
  const emulator::Arena::Opening opening(arena_);
  const Progress progress = status_ ? waiting_.front().run() : Progress::kEnded;
  if (progress == Progress::kEnded) {
    waiting_.pop_front();
  }
  return progress != Progress::kStuck;
}

void EmulatorDriver::Unblock() {
  bool any = false;
  for (EmulatorDriver* const device : peers_->devices) {
    any = (device->runs_kernel_ && device->runner_.Unblock()) || any;
  }
  for (EmulatorDriver* const device : peers_->devices) {
    if (!any && device->runs_kernel_) {
      device->runner_.SetDeadlock();
    }
  }
}

void EmulatorDriver::RunUntil(std::uint64_t number) {
  RunWaiting(number);
  if (waiting_.empty()) {
    unfinished_.clear();
  }
}

void EmulatorDriver::RunWaiting(std::uint64_t number) {
  if (HasRun(number)) return;
  const auto open = [](EmulatorDriver& device) {
    return std::make_unique<emulator::Arena::Opening>(device.arena_);
  };
  std::vector<std::unique_ptr<emulator::Arena::Opening>> openings;
  for (EmulatorDriver* const device : peers_->devices) {
    if (peers_->access || peers_->devices.size() == 1) {
      openings.push_back(open(*device));
    }
  }
  while (!HasRun(number)) {
    bool moved = false;
    for (EmulatorDriver* const device : peers_->devices) {
      moved = device->Step() || moved;
    }
    if (!moved) {
      Unblock();
    }
  }
}

Status EmulatorDriver::Wait(Ticket ticket) {
  RunUntil(ticket.number);
  return status_;
}

Result<std::unique_ptr<GpuTimer>> EmulatorDriver::MakeTimer(int n_marks, TimedWork) {
  return std::make_unique<Timer>(*this, n_marks);
}

}  // namespace

std::unique_ptr<GpuDriver> MakeEmulatorDriver(const EmulatorOptions& options) {
  return std::make_unique<EmulatorDriver>(options, std::make_shared<Peers>());
}

std::vector<std::unique_ptr<GpuDriver>> MakeEmulatorDrivers(const EmulatorOptions& options,
                                                            int n_devices, bool peer_access) {
  const auto peers = std::make_shared<Peers>();
  peers->access = peer_access;
  std::vector<std::unique_ptr<GpuDriver>> drivers;
  for (int i = 0; i < n_devices; ++i) {
    drivers.push_back(std::make_unique<EmulatorDriver>(options, peers));
  }
  return drivers;
}

void LaunchEmulated(GpuDriver& driver, const EmulatedLaunch& launch) {
  auto* const emulated = dynamic_cast<EmulatorDriver*>(&driver);
  Check(emulated != nullptr, "a driver of the emulator");
  emulated->Launch(launch);
}

}  // namespace fathom::kernels
