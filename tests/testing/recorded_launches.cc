#include "tests/testing/fake_gpu_driver.h"

namespace fathom::testing {

int RunLaunch(FakeGpuDriver& driver, const FakeLaunch& launch) {
  driver.launches.push_back(launch);
  return 0;
}

std::size_t ArgumentBytes(const FakeGpuDriver& driver, const std::string&) {
  return driver.argument_bytes;
}

std::vector<std::string> MoreKernels() { return {}; }

}  // namespace fathom::testing
