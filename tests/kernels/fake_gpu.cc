#include "tests/kernels/fake_gpu.h"

#include <dlfcn.h>

#include "kernels/vendor/vendor_module.h"

namespace fathom::testing {

void FakeGpuTest::SetUp() {
  void* const library = ::dlopen(FATHOM_FAKE_GPU_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  fake_ = reinterpret_cast<FakeGpuDriverFunction>(::dlsym(library, kFakeGpuDriverName))();
  *fake_ = FakeGpuDriver();
}

void FakeGpuTest::TearDown() {
  for (const auto& [kind, number] : fake_->live) {
    EXPECT_EQ(number, 0) << kind;
  }
}

GpuVendor FakeGpuTest::Vendor() const {
  GpuVendor vendor = is_cuda() ? CudaVendor() : HipVendor();
  vendor.libraries = {FATHOM_FAKE_GPU_DRIVER};
  return vendor;
}

CodeObjects FakeGpuTest::Code() const {
  return is_cuda() ? CodeObjects{kCudaArchitectures, kCudaObjects}
                   : CodeObjects{kHipArchitectures, kHipObjects};
}

Result<std::unique_ptr<GpuModule>> FakeGpuTest::MakeModule() const {
  return MakeVendorModule(Vendor(), Code());
}

std::unique_ptr<GpuDriver> FakeGpuTest::OpenDriver(const GpuDriverOptions& options) const {
  Result<std::unique_ptr<GpuModule>> module = MakeModule();
  if (!module) {
    ADD_FAILURE() << module.error().message;
    return nullptr;
  }
  Result<std::unique_ptr<GpuDriver>> driver = (*module)->Open(0, options);
  if (driver) return *std::move(driver);
  ADD_FAILURE() << driver.error().message;
  return nullptr;
}

std::string FakeGpuTest::ModuleError() const {
  const Result<std::unique_ptr<GpuModule>> module = MakeModule();
  return module ? "" : module.error().message;
}

std::string FakeGpuTest::OpenError(int number) const {
  const Result<std::unique_ptr<GpuModule>> module = MakeModule();
  if (!module) return "no module: " + module.error().message;
  const Result<std::unique_ptr<GpuDriver>> driver = (*module)->Open(number, {});
  return driver ? "" : driver.error().message;
}

std::string VendorTestName(const ::testing::TestParamInfo<GpuVendorName>& info) {
  return info.param == GpuVendorName::kCuda ? "cuda" : "hip";
}

}  // namespace fathom::testing
