// ProfiledBackend: wraps another backend and measures its operations while a profile is taken.
//
// For backends of the host, where an operation has ended when its call returns. The profiler's own
// time is left out. Names and costs: operations.h.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/profile.h"
#include "kernels/profile_recorder.h"
#include "kernels/roofline.h"

namespace fathom::kernels {

class ProfiledBackend final : public Backend {
 public:
  // `backend` must be OnHost.
  explicit ProfiledBackend(std::unique_ptr<Backend> backend);

  Result<std::unique_ptr<Profiler>> MakeProfiler() override;

  // --- Not measured ---
  std::string_view Name() const override { return backend_->Name(); }
  bool OnHost() const override { return true; }
  std::optional<std::int64_t> DeviceMemory() const override { return backend_->DeviceMemory(); }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override {
    return backend_->Allocate(bytes, kind);
  }
  Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) override {
    return backend_->Import(pieces);
  }
  Status Reserve(const StepLimits& limits) override { return backend_->Reserve(limits); }
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override {
    return backend_->MakeRooflineProbe(options);
  }
  Status Synchronize() override { return backend_->Synchronize(); }
  Ticket Mark() override { return backend_->Mark(); }
  Status Wait(Ticket ticket) override { return backend_->Wait(ticket); }
  Status PlaceExperts(const ExpertPlaces& places) override {
    return backend_->PlaceExperts(places);
  }
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override {
    return backend_->BindExperts(block, experts);
  }

  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void CopyPieces(std::span<const PieceCopy> pieces) override;
  Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) override;

 protected:
  void Compute(const Operation& operation) override;

 private:
  class HostProfiler;
  using Clock = std::chrono::steady_clock;

  class Timer;

  std::unique_ptr<Backend> backend_;
  bool is_on_ = false;
  ProfileRecorder recorder_;
  Clock::time_point free_since_;  // end of the profiler's own work for the piece before
};

}  // namespace fathom::kernels
