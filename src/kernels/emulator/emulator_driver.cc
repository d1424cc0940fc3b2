#include "kernels/emulator/emulator_driver.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/kernel_table.h"
#include "kernels/host_buffer.h"

namespace fathom {
namespace {

using emulator::BlockRunner;
using Progress = BlockRunner::Progress;

class EmulatorDriver;

// Devices that run at the same time.
struct Peers {
  std::vector<EmulatorDriver*> devices;
  bool access = false;  // to each other's memory
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
  // Kernels reach all memory of the host.
  Status ReadInPlace(std::span<const std::span<const std::byte>>) override { return {}; }
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void Launch(GpuKernel kernel, const GpuGrid& grid, std::span<const std::byte> arguments) override;
  void LaunchKernel(std::string_view name, const emulator::Kernel& code, const GpuGrid& grid,
                    std::span<const std::byte> arguments);
  Status Synchronize() override { return Wait(Mark()); }
  Ticket Mark() override { return {n_called_}; }
  Status Wait(Ticket ticket) override;
  Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) override;

 private:
  class DeviceBuffer;
  class Timer;

  // A piece of work: called again until it has ended.
  using Work = std::function<Progress()>;

  void Add(Work work);
  void AddOnce(std::function<void()> run);
  void RunUntil(std::uint64_t number);
  bool HasRun(std::uint64_t number) const { return n_called_ - waiting_.size() >= number; }
  // Lets the first piece of work go on. Returns false if nothing could.
  bool Step();
  // Unblocks kernels once no device can go on; reports a deadlock if none can be unblocked.
  void Unblock();

  EmulatorOptions options_;
  std::shared_ptr<Peers> peers_;
  GpuDevice device_;
  emulator::Arena arena_;
  BlockRunner runner_;
  std::deque<Work> waiting_;
  bool runs_kernel_ = false;  // the first piece of work is one that has begun
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

// By the clock of the host, when the work runs.
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
  if (IsOnHost(kind)) return AllocateHostBuffer(bytes);
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
  LaunchKernel(kGpuKernelNames[static_cast<std::size_t>(kernel)], emulator::FindKernel(kernel),
               grid, arguments);
}

void EmulatorDriver::LaunchKernel(std::string_view name, const emulator::Kernel& code,
                                  const GpuGrid& grid, std::span<const std::byte> arguments) {
  Check(arguments.size() == code.argument_bytes, "the size of a kernel's arguments");
  if (grid.x == 0 || grid.y == 0) return;
  // Kernels expect the alignment of their struct.
  struct alignas(128) Piece {
    std::byte bytes[128];
  };
  std::vector<Piece> copy(DivideUp(arguments.size(), sizeof(Piece)));
  std::memcpy(copy.data(), arguments.data(), arguments.size());
  Add([this, name, code, grid, copy = std::move(copy)] {
    if (!runs_kernel_) {
      runner_.Begin(name, code, grid, copy.data());
      runs_kernel_ = true;
    }
    const Progress progress = runner_.Step();
    if (progress == Progress::kEnded) {
      runs_kernel_ = false;
      status_ = runner_.status();
    }
    return progress;
  });
}

void EmulatorDriver::AddOnce(std::function<void()> run) {
  Add([run = std::move(run)] {
    run();
    return Progress::kEnded;
  });
}

void EmulatorDriver::Add(Work work) {
  ++n_called_;
  waiting_.push_back(std::move(work));
  // The work of other devices that this may wait for comes later.
  if (!options_.runs_when_awaited && peers_->devices.size() == 1) {
    RunUntil(n_called_);
  }
}

bool EmulatorDriver::Step() {
  if (waiting_.empty()) return false;
  const emulator::Arena::Opening opening(arena_);
  const Progress progress = status_ ? waiting_.front()() : Progress::kEnded;
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

void LaunchEmulated(GpuDriver& driver, std::string_view name, const emulator::Kernel& kernel,
                    const GpuGrid& grid, std::span<const std::byte> arguments) {
  auto* const emulated = dynamic_cast<EmulatorDriver*>(&driver);
  Check(emulated != nullptr, "a driver of the emulator");
  emulated->LaunchKernel(name, kernel, grid, arguments);
}

}  // namespace fathom
