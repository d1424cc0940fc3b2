// GPUs for tests of models: emulated ones, and the one that FATHOM_TEST_GPU names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/registry.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/model/test_model.h"
#include "tests/testing/chosen_gpu.h"

namespace fathom::testing {

inline TestBackend OnEmulatedGpu(const EmulatorOptions& options) {
  return {.other = [options]() -> std::unique_ptr<Backend> {
    Result<std::unique_ptr<GpuBackend>> gpu = GpuBackend::Make(
        MakeEmulatorDriver(options), [] { return MakeCpuBackend(std::nullopt, 1); });
    Check(gpu.has_value(), gpu ? "" : gpu.error().message);
    return *std::move(gpu);
  }};
}

// The GPU of FATHOM_TEST_GPU, which can be opened.
inline TestBackend OnChosenGpu() {
  return {.other = []() -> std::unique_ptr<Backend> {
    Result<std::unique_ptr<GpuDriver>> driver = OpenChosenGpu();
    Check(driver.has_value(), driver ? "" : driver.error().message);
    Result<std::unique_ptr<GpuBackend>> gpu = GpuBackend::Make(*std::move(driver));
    Check(gpu.has_value(), gpu ? "" : gpu.error().message);
    return *std::move(gpu);
  }};
}

// A GPU that tests run on.
struct TestGpu {
  std::string name;
  TestBackend backend;
  bool on_device = false;
};
inline TestGpu EmulatedGpu(const EmulatorOptions& options) {
  return {.name = "Wave" + std::to_string(options.wave_size), .backend = OnEmulatedGpu(options)};
}
// The GPU of FATHOM_TEST_GPU, or none.
inline std::vector<TestGpu> ChosenGpus() {
  if (!ChosenGpu()) return {};
  return {{.name = "Device", .backend = OnChosenGpu(), .on_device = true}};
}

// Why the tests of a GPU are skipped: its driver's sentence; nothing if they are not.
inline std::string WhySkipped(const TestGpu& gpu) {
  if (!gpu.on_device) return "";
  const Result<std::unique_ptr<GpuDriver>> opened = OpenChosenGpu();
  return opened ? "" : opened.error().message;
}

}  // namespace fathom::testing
