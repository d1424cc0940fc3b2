#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/pages.h"
#include "base/processors.h"
#include "cli/commands/commands.h"
#include "cli/terminal/output.h"
#include "kernels/cpu/isa.h"
#include "kernels/gpu_module.h"

namespace fathom::cli {
namespace {

std::string Gibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// Returns "cuda 0    NVIDIA H200, ...": a subject, and a text about it.
std::string Line(std::string_view subject, std::string_view text) {
  return fmt::format("{:<9} {}\n", subject, text);
}

std::string DescribeProcessor() {
  const std::optional<std::int64_t> memory = AvailableMemory();
  const int n_cores = AvailableCores();
  return Line("cpu", fmt::format("{}, {} core{}{}; used by default", Name(PreferredIsa()), n_cores,
                                 n_cores == 1 ? "" : "s",
                                 memory ? ", " + Gibibytes(*memory) + " available" : ""));
}

std::string DescribeGpu(const FoundGpu& gpu, std::string_view options) {
  const GpuDevice& device = gpu.device;
  return fmt::format(
      "{}{}{}, {} multiprocessors, {}; {}", device.name, device.architecture.empty() ? "" : ", ",
      device.architecture, device.n_multiprocessors, Gibibytes(device.memory_bytes),
      gpu.obstacle.empty() ? fmt::format("used with {}", options) : "not used: " + gpu.obstacle);
}

// Describes the devices of a backend, or the reason why there are none.
std::string DescribeGpus(std::string_view backend) {
  const Result<std::unique_ptr<GpuModule>> module = OpenGpuModule(backend);
  if (!module) return Line(backend, "not used: " + module.error().message);
  std::string text;
  for (const FoundGpu& gpu : (*module)->devices()) {
    const auto number = &gpu - (*module)->devices().data();
    text += Line(fmt::format("{} {}", backend, number),
                 DescribeGpu(gpu, fmt::format("--backend {} --device {}", backend, number)));
  }
  return text;
}

}  // namespace

Status RunCommand(const DevicesCommand&, Log&) {
  std::string text = DescribeProcessor();
  for (const std::string_view backend : GpuBackendNames()) text += DescribeGpus(backend);
  return Print(text);
}

}  // namespace fathom::cli
