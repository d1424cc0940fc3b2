// ProfiledDriver: wraps a driver and measures its work, by kernel, while a profile is taken.
//
// Every piece of work is between two marks of the device's clock; the time between two pieces is a
// row of its own. Where the bytes of a launch depend on results of the device, the driver waits and
// reads them; that time is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/profile.h"
#include "kernels/profile_recorder.h"

namespace fathom::kernels {

class ProfiledDriver final : public GpuDriver {
 public:
  explicit ProfiledDriver(std::unique_ptr<GpuDriver> driver) : driver_(std::move(driver)) {}
  // Returns the driver whose work is not measured.
  GpuDriver& inner() const { return *driver_; }

  // Implement the contracts of Profiler.
  Status StartProfile();
  void EnterPart(std::string_view part) { recorder_.EnterPart(part); }
  Result<Profile> StopProfile();

  const GpuDevice& device() const override { return driver_->device(); }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override {
    return driver_->Allocate(bytes, kind);
  }
  Status ReadInPlace(std::span<const std::span<const std::byte>> pieces) override {
    return driver_->ReadInPlace(pieces);
  }
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void Launch(GpuKernel kernel, const GpuGrid& grid, std::span<const std::byte> arguments) override;
  Status Synchronize() override { return driver_->Synchronize(); }
  Ticket Mark() override { return driver_->Mark(); }
  Status Wait(Ticket ticket) override { return driver_->Wait(ticket); }
  Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) override {
    return driver_->MakeTimer(n_marks, work);
  }

 private:
  // A piece of work between marks 2 i and 2 i + 1.
  struct Piece {
    std::string_view name;
    std::optional<double> bytes;
    std::size_t part = 0;  // part of the model
    bool follows = true;   // the time since the piece before counts
  };

  bool is_on() const { return timer_ != nullptr; }
  // Runs `work` between two marks.
  template <class Work>
  void Measure(Piece piece, const Work& work);
  // Passes the times of all pieces to the recorder.
  void Collect();

  std::unique_ptr<GpuDriver> driver_;
  std::unique_ptr<GpuTimer> timer_;  // set while a profile is taken
  std::vector<Piece> pieces_;
  bool has_waited_ = true;  // since the last piece
  ProfileRecorder recorder_;
  Status status_;  // the first error of the timer
};

}  // namespace fathom::kernels
