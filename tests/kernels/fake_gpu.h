// The fake driver library (tests/testing/fake_gpu_driver.h) behind both vendors' drivers.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "kernels/gpu_module.h"
#include "kernels/vendor/code_objects.h"
#include "kernels/vendor/gpu_vendor.h"
#include "tests/testing/fake_gpu_driver.h"

namespace fathom::testing {

// Code objects as the modules have them; their bytes mean nothing.
inline constexpr std::array<std::byte, 4> kImages{};
inline constexpr std::string_view kCudaArchitectures[] = {"sm_80", "sm_90a", "sm_100a", "sm_120a",
                                                          "compute_80"};
inline constexpr CodeObject kCudaObjects[] = {{"", kImages.data(), kImages.data() + 1}};
inline constexpr std::string_view kHipArchitectures[] = {"gfx90a", "gfx942"};
inline constexpr CodeObject kHipObjects[] = {{"gfx90a", kImages.data() + 1, kImages.data() + 2},
                                             {"gfx942", kImages.data() + 2, kImages.data() + 3},
                                             {"gfx942", kImages.data() + 3, kImages.data() + 4}};

// Tests of a vendor: the fake driver as it is when everything works, with all kernels.
class FakeGpuTest : public ::testing::TestWithParam<GpuVendorName> {
 protected:
  void SetUp() override;
  // Whatever the driver made was freed.
  void TearDown() override;

  bool is_cuda() const { return GetParam() == GpuVendorName::kCuda; }
  FakeGpuDriver& fake() const { return *fake_; }
  GpuVendor Vendor() const;
  CodeObjects Code() const;
  Result<std::unique_ptr<GpuModule>> MakeModule() const;
  // Opens the first device; its errors fail the test.
  std::unique_ptr<GpuDriver> OpenDriver(const GpuDriverOptions& options = {}) const;
  // The message of the error of MakeModule, or of opening a device.
  std::string ModuleError() const;
  std::string OpenError(int number = 0) const;

 private:
  FakeGpuDriver* fake_ = nullptr;
};

std::string VendorTestName(const ::testing::TestParamInfo<GpuVendorName>& info);

}  // namespace fathom::testing
