#include "tests/testing/chosen_gpu.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "kernels/gpu_module.h"
#include "tests/testing/forwarding_driver.h"

namespace fathom::testing {

std::optional<std::string> ChosenGpu() {
  const char* const name = std::getenv("FATHOM_TEST_GPU");
  return name == nullptr ? std::nullopt : std::optional<std::string>(name);
}

Result<std::unique_ptr<GpuDriver>> OpenChosenGpu() {
  const std::string name = ChosenGpu().value_or("");
  const std::size_t colon = std::min(name.find(':'), name.size());
  const std::string_view backend = std::string_view(name).substr(0, colon);
  int number = -1;
  std::from_chars(name.data() + std::min(colon + 1, name.size()), name.data() + name.size(),
                  number);
  if (std::ranges::find(GpuBackendNames(), backend) == GpuBackendNames().end() || number < 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "FATHOM_TEST_GPU: expected cuda:N or hip:N, found \"{}\"", name);
  }
  const Result<std::unique_ptr<GpuModule>> module = OpenGpuModule(backend);
  if (!module) return Unexpected(module.error());
  const char* const graphs = std::getenv("FATHOM_GPU_GRAPHS");
  const char* const sync = std::getenv("FATHOM_GPU_SYNC");
  const auto is_on = [](const char* value) { return std::string_view(value) == "1"; };
  return (*module)->Open(
      number, {.waits_after_each = sync != nullptr && is_on(sync),
               .uses_graphs = graphs == nullptr ? std::nullopt : std::optional(is_on(graphs))});
}

Result<std::unique_ptr<GpuDriver>> ShareChosenGpu() {
  // Stays open: the driver's library may have ended before objects with static lifetime do.
  static auto* const opened = new Result<std::unique_ptr<GpuDriver>>(OpenChosenGpu());
  if (!*opened) return Unexpected(opened->error());
  return std::make_unique<ForwardingDriver>(***opened);
}

}  // namespace fathom::testing
