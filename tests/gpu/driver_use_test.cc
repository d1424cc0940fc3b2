// A model allocates the memory that was planned, does not wait before the logits, and launches the
// same in steps of one size.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gpu/gpu_backend.h"
#include "kernels/gpu/memory_sizes.h"
#include "kernels/registry.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/testing/forwarding_driver.h"

namespace fathom::testing {
namespace {

struct DriverUse {
  std::int64_t device_bytes = 0;  // allocated
  std::int64_t n_waits = 0;       // calls that make the host wait, or bring something down
  std::int64_t n_uploads = 0;
  std::vector<std::string> launches;  // kernel, grid and arguments
};

class CountingDriver final : public testing::ForwardingDriver {
 public:
  CountingDriver(std::unique_ptr<GpuDriver> driver, DriverUse& use)
      : ForwardingDriver(*driver), driver_(std::move(driver)), use_(use) {}
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override {
    use_.device_bytes += kind == MemoryKind::kDevice ? GpuAllocationBytes(bytes) : 0;
    return driver_->Allocate(bytes, kind);
  }
  void Upload(void* to, std::span<const std::byte> from) override {
    ++use_.n_uploads;
    driver_->Upload(to, from);
  }
  void Download(std::span<std::byte> to, const void* from) override {
    ++use_.n_waits;
    driver_->Download(to, from);
  }
  void Launch(GpuKernel kernel, const GpuGrid& grid,
              std::span<const std::byte> arguments) override {
    std::string& launch = use_.launches.emplace_back(
        fmt::format("{} {} {} {} {} ", kGpuKernelNames[static_cast<std::size_t>(kernel)], grid.x,
                    grid.y, grid.threads, grid.shared_bytes));
    launch.append(reinterpret_cast<const char*>(arguments.data()), arguments.size());
    driver_->Launch(kernel, grid, arguments);
  }
  Status Synchronize() override {
    ++use_.n_waits;
    return driver_->Synchronize();
  }
  Status Wait(Ticket ticket) override {
    ++use_.n_waits;
    return driver_->Wait(ticket);
  }

 private:
  std::unique_ptr<GpuDriver> driver_;
  DriverUse& use_;
};

Result<std::unique_ptr<GpuBackend>> MakeGpu(const EmulatorOptions& options, DriverUse& use) {
  return GpuBackend::Make(std::make_unique<CountingDriver>(MakeEmulatorDriver(options), use));
}

TEST(GpuDriverUse, NoStepWaitsBeforeItsLogits) {
  constexpr std::int64_t kForwardTokens = 3;
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  DriverUse use;
  const Result<std::unique_ptr<GpuBackend>> gpu = MakeGpu({}, use);
  ASSERT_TRUE(gpu);
  const Result<std::unique_ptr<Model>> model = Model::Load(
      *directory, **gpu, {.max_context = kForwardTokens, .max_batch_tokens = kForwardTokens});
  ASSERT_TRUE(model);
  EXPECT_GT(use.n_waits, 0);
  use.n_waits = 0;
  const std::vector<Token> tokens = testing::RandomTokens((*model)->config(), kForwardTokens, 1);
  Batch batch;
  batch.Add(0, 0, tokens);
  ASSERT_TRUE((*model)->Forward(batch));
  EXPECT_EQ(use.n_waits, 0);
  const std::int32_t last = kForwardTokens - 1;
  ASSERT_TRUE((*model)->Logits(std::span(&last, 1)));
  EXPECT_GT(use.n_waits, 0);
}

// Values that differ between steps lie in memory of the device, so that a driver can launch them as
// graphs: here while an index layer goes from 34 to 36 rows, of which it chooses 32.
TEST(GpuDriverUse, StepsOfOneSizeLaunchTheSame) {
  constexpr std::int32_t kPromptTokens = 136;
  constexpr std::int32_t kSteps = 10;
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  DriverUse use;
  const Result<std::unique_ptr<GpuBackend>> gpu = MakeGpu({}, use);
  ASSERT_TRUE(gpu);
  const Result<std::unique_ptr<Model>> model =
      Model::Load(*directory, **gpu,
                  {.max_context = kPromptTokens + kSteps, .max_batch_tokens = kPromptTokens});
  ASSERT_TRUE(model);
  const std::vector<Token> tokens =
      testing::RandomTokens((*model)->config(), kPromptTokens + kSteps, /*seed=*/1);
  const auto step = [&](std::int32_t first, std::size_t n) {
    Batch batch;
    batch.Add(0, first, std::span(tokens).subspan(static_cast<std::size_t>(first), n));
    use.launches.clear();
    use.n_uploads = 0;
    const Status ran = (*model)->Forward(batch);
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    return use.launches;
  };
  step(0, kPromptTokens);
  const std::vector<std::string> expected = step(kPromptTokens, 1);
  EXPECT_GT(expected.size(), 100u);
  EXPECT_EQ(use.n_uploads, 2);  // the batch, and its rows of the embedding
  for (std::int32_t first = kPromptTokens + 1; first < kPromptTokens + kSteps; ++first) {
    EXPECT_TRUE(step(first, 1) == expected) << "position " << first;
  }
}

// A model takes what was planned, and hardly less: logits, which are planned, lie on the host.
TEST(GpuDriverUse, LoadingTakesTheMemoryThatWasPlanned) {
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  for (const std::int64_t max_tokens : {1, 64}) {
    DriverUse use;
    const Result<std::unique_ptr<GpuBackend>> gpu = MakeGpu({.memory_bytes = 40 << 20}, use);
    ASSERT_TRUE(gpu);
    const Result<std::unique_ptr<Model>> model = Model::Load(*directory, **gpu,
                                                             {.max_sequences = 2,
                                                              .max_context = 512,
                                                              .max_batch_tokens = max_tokens,
                                                              .with_draft = true});
    ASSERT_TRUE(model) << model.error().message;
    const MemoryPlan& plan = *(*model)->memory_plan();
    const std::int64_t planned =
        plan.needs.WithoutExperts() + plan.n_on_device() * plan.needs.expert;
    EXPECT_LE(use.device_bytes, planned);
    EXPECT_GT(use.device_bytes, planned / 100 * 96);
  }
}

}  // namespace
}  // namespace fathom::testing
