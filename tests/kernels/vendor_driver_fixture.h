// VendorDriverTest: a device of a vendor, opened, whose driver library runs work as late as it may.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/kernels/fake_gpu.h"

namespace fathom::testing {

class VendorDriverTest : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    driver_ = OpenDriver();
    ASSERT_NE(driver_, nullptr);
  }
  void TearDown() override {
    driver_.reset();
    FakeGpuTest::TearDown();
  }

  // Opens the device anew.
  void Reopen(const GpuDriverOptions& options = {}) {
    driver_.reset();
    driver_ = OpenDriver(options);
    ASSERT_NE(driver_, nullptr);
  }
  GpuDriver& driver() const { return *driver_; }
  std::unique_ptr<Buffer> Allocate(std::int64_t bytes, MemoryKind kind) const {
    return driver_->Allocate(bytes, kind).value();
  }
  std::string Name() const {
    return is_cuda() ? "CUDA device 0 (Fake GPU)" : "HIP device 0 (Fake GPU)";
  }
  // Expects that every later wait returns this.
  void ExpectKept(const std::string& message) const {
    const std::size_t n_queued = fake().queue.size();
    driver_->Launch(GpuKernel{}, {}, {});
    driver_->Upload(nullptr, {});
    EXPECT_EQ(fake().queue.size(), n_queued);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(driver_->Synchronize().error().message, message);
      EXPECT_EQ(driver_->Wait(driver_->Mark()).error().message, message);
    }
  }

 private:
  std::unique_ptr<GpuDriver> driver_;
};

}  // namespace fathom::testing
