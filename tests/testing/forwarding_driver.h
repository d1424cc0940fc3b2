// ForwardingDriver: a driver that hands every call on, for tests that watch some of them, or that
// use one driver several times.
#pragma once

#include <memory>
#include <span>

#include "kernels/gpu/driver.h"

namespace fathom::testing {

class ForwardingDriver : public GpuDriver {
 public:
  // `driver` must outlive the object.
  explicit ForwardingDriver(GpuDriver& driver) : driver_(driver) {}

  const GpuDevice& device() const override { return driver_.device(); }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override {
    return driver_.Allocate(bytes, kind);
  }
  Status ReadInPlace(std::span<const std::span<const std::byte>> pieces) override {
    return driver_.ReadInPlace(pieces);
  }
  void Upload(void* to, std::span<const std::byte> from) override { driver_.Upload(to, from); }
  void Download(std::span<std::byte> to, const void* from) override { driver_.Download(to, from); }
  void Launch(GpuKernel kernel, const GpuGrid& grid,
              std::span<const std::byte> arguments) override {
    driver_.Launch(kernel, grid, arguments);
  }
  Status Synchronize() override { return driver_.Synchronize(); }
  Ticket Mark() override { return driver_.Mark(); }
  Status Wait(Ticket ticket) override { return driver_.Wait(ticket); }
  Result<std::unique_ptr<GpuTimer>> MakeTimer(int n_marks, TimedWork work) override {
    return driver_.MakeTimer(n_marks, work);
  }

 private:
  GpuDriver& driver_;
};

}  // namespace fathom::testing
