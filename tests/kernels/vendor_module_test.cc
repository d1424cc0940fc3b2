// Errors of drivers and devices that cannot be used, and the properties of devices that can.
#include "kernels/vendor/vendor_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/gpu/kernel_list.h"
#include "tests/kernels/fake_gpu.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class VendorModuleTest : public FakeGpuTest {
 protected:
  std::string title() const { return is_cuda() ? "CUDA" : "HIP"; }
  std::string least() const {
    return is_cuda() ? "CUDA 13.0 (driver 580) or later" : "ROCm 6.0 or later";
  }
  std::string ErrorWithLibrary(const std::string& library) const {
    GpuVendor vendor = Vendor();
    vendor.libraries = {library};
    const Result<std::unique_ptr<GpuModule>> module = MakeVendorModule(vendor, Code());
    return module ? "" : module.error().message;
  }
};

TEST_P(VendorModuleTest, ADriverIsMissing) {
  EXPECT_EQ(ErrorWithLibrary("libnowhere.so.1"),
            title() + ": expected a driver of " + least() +
                ", found none (libnowhere.so.1: cannot open shared object file: No such file or "
                "directory)");
}

TEST_P(VendorModuleTest, ADriverLacksFunctions) {
  EXPECT_EQ(ErrorWithLibrary("libm.so.6"), title() + ": expected a driver of " + least() +
                                               ", found one without the function " +
                                               (is_cuda() ? "cuInit" : "hipInit"));
}

TEST_P(VendorModuleTest, ADriverIsTooOld) {
  fake().cuda_version = 12040;
  fake().hip_version = 50700000;
  EXPECT_EQ(ModuleError(), title() + ": expected a driver of " + least() + ", found one of " +
                               (is_cuda() ? "12.4" : "5.7"));
}

TEST_P(VendorModuleTest, ThereIsNoDevice) {
  fake().gpus.clear();
  EXPECT_EQ(ModuleError(), title() + ": expected a device, found none");
}

TEST_P(VendorModuleTest, ADriverDoesNotStart) {
  fake().errors["initialize"] = 803;
  EXPECT_EQ(ModuleError(), title() + ": expected a driver that starts, found: unknown (error 803)");
}

TEST_P(VendorModuleTest, DescribesDevices) {
  const std::unique_ptr<GpuModule> module = MakeModule().value();
  ASSERT_EQ(module->devices().size(), 1u);
  const FoundGpu& found = module->devices()[0];
  EXPECT_EQ(found.obstacle, "");
  EXPECT_EQ(found.device.name, "Fake GPU");
  EXPECT_EQ(found.device.architecture, is_cuda() ? "sm_90a" : "gfx942");
  EXPECT_EQ(found.device.wave_size, is_cuda() ? 32 : 64);
  EXPECT_EQ(found.device.n_multiprocessors, is_cuda() ? 132 : 304);
  EXPECT_EQ(found.device.memory_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(found.device.shared_bytes, is_cuda() ? 232448 : 65536);
}

TEST_P(VendorModuleTest, FindsTheCodeOfEachDevice) {
  const std::vector<std::pair<FakeGpu, std::string>> cuda = {
      {{.capability = 80}, "sm_80"},       {{.capability = 89}, "sm_80"},
      {{.capability = 90}, "sm_90a"},      {{.capability = 100}, "sm_100a"},
      {{.capability = 103}, "compute_80"}, {{.capability = 120}, "sm_120a"},
      {{.capability = 121}, "compute_80"}};
  const std::vector<std::pair<FakeGpu, std::string>> hip = {
      {{.architecture = "gfx90a"}, "gfx90a"}, {{.architecture = "gfx942:xnack-"}, "gfx942"}};
  for (const auto& [gpu, architecture] : is_cuda() ? cuda : hip) {
    fake().gpus = {gpu};
    const std::unique_ptr<GpuModule> module = MakeModule().value();
    EXPECT_EQ(module->devices()[0].device.architecture, architecture);
    EXPECT_EQ(module->devices()[0].obstacle, "");
  }
}

TEST_P(VendorModuleTest, ADeviceOfAnUnknownArchitectureIsListedAndRefused) {
  fake().gpus.push_back({.name = "Old GPU", .capability = 75, .architecture = "gfx906"});
  const std::unique_ptr<GpuModule> module = MakeModule().value();
  ASSERT_EQ(module->devices().size(), 2u);
  EXPECT_EQ(module->devices()[0].obstacle, "");
  const std::string obstacle =
      is_cuda() ? "expected an architecture of sm_80, sm_90a, sm_100a, sm_120a, compute_80, found "
                  "compute capability 7.5"
                : "expected an architecture of gfx90a, gfx942, found gfx906";
  EXPECT_EQ(module->devices()[1].obstacle, obstacle);
  EXPECT_EQ(OpenError(1), title() + " device 1 (Old GPU): " + obstacle);
}

TEST_P(VendorModuleTest, ALostDeviceIsListedAndRefused) {
  fake().errors["device_attribute"] = 719;
  const std::unique_ptr<GpuModule> module = MakeModule().value();
  EXPECT_EQ(module->devices()[0].obstacle, "unspecified launch failure (error 719)");
  EXPECT_THAT(OpenError(), HasSubstr("unspecified launch failure (error 719)"));
}

TEST_P(VendorModuleTest, ThereIsNoDeviceOfThisNumber) {
  for (const int number : {-1, 1}) {
    EXPECT_EQ(OpenError(number),
              title() + ": expected a device from 0 to 0, found " + std::to_string(number));
  }
}

TEST_P(VendorModuleTest, LoadsTheCodeOfTheArchitecture) {
  const std::unique_ptr<GpuDriver> driver = OpenDriver();
  const std::vector<const void*> expected =
      is_cuda() ? std::vector<const void*>{kCudaObjects[0].begin}
                : std::vector<const void*>{kHipObjects[1].begin, kHipObjects[2].begin};
  EXPECT_EQ(fake().images, expected);
  EXPECT_EQ(driver->device().free_bytes, std::int64_t{1} << 30);
}

TEST_P(VendorModuleTest, AKernelIsMissing) {
  fake().kernels.pop_back();
  EXPECT_EQ(OpenError(), title() + " device 0 (Fake GPU): expected the kernel " +
                             std::string(*std::rbegin(kGpuKernelNames)) + " for " +
                             (is_cuda() ? "sm_90a" : "gfx942") + ", found none");
}

// TearDown finds what is not freed then.
TEST_P(VendorModuleTest, EveryFailureToOpenIsOneSentence) {
  for (const char* function : {"device", "retain_context", "set_context", "set_device", "memory",
                               "make_stream", "make_event", "allocate_host", "load_module"}) {
    const bool is_of_other = is_cuda() ? function == std::string("set_device")
                                       : std::string(function).ends_with("_context");
    if (is_of_other) continue;
    fake().errors = {{function, 719}};
    if (function == std::string("device")) {
      EXPECT_EQ(MakeModule().value()->devices()[0].obstacle,
                "unspecified launch failure (error 719)");
    }
    EXPECT_THAT(OpenError(), MatchesRegex(title() + " device 0.*: unspecified launch failure "
                                                    "\\(error 719\\)"))
        << function;
  }
}

TEST_P(VendorModuleTest, ADeviceWithoutMemoryForKernelsIsNamed) {
  fake().errors["load_module"] = 2;
  const std::unique_ptr<GpuModule> module = MakeModule().value();
  const Result<std::unique_ptr<GpuDriver>> driver = module->Open(0, {});
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(driver.error().message,
            title() + " device 0 (Fake GPU), loading the kernels: unknown (error 2)");
}

INSTANTIATE_TEST_SUITE_P(Vendors, VendorModuleTest,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);

}  // namespace
}  // namespace fathom::testing
