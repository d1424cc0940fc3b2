// Experts in memory of an emulated GPU, read over the bus, or computed by the CPU: the bits of the
// CPU, whichever side has an expert.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/gpu/memory_sizes.h"
#include "model/memory_plan.h"
#include "tests/gpu/emulated_gpu.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using emulator::Visiting;

constexpr std::int64_t kExpertTokens = 7;

ModelOptions MakeOptions(const testing::CheckpointCase& checkpoint, HostExpertChoice choice) {
  return {.max_context = kExpertTokens,
          .max_batch_tokens = kExpertTokens,
          .max_logit_rows = kExpertTokens,
          .with_draft = checkpoint.golden == nullptr,
          .host_experts = choice};
}

// Free memory with room for n experts and no more.
std::int64_t FreeFor(const MemoryNeeds& needs, std::int64_t n) {
  return RoundUp(DivideUp((needs.WithoutExperts() + n * needs.expert) * 64, 63),
                 kGpuPieceAlignment);
}

MemoryNeeds NeedsOnGpu(const std::filesystem::path& directory, const ModelOptions& options) {
  testing::TestModel whole(directory, options, testing::OnEmulatedGpu({}));
  const MemoryPlan* const plan = whole.model().memory_plan();
  Check(plan != nullptr && plan->n_on_device() == plan->n_experts(), "all experts on the GPU");
  return plan->needs;
}

struct PlacesCase {
  const char* name;
  double on_device;  // the share of the experts that there is memory for
  HostExpertChoice choice;
  bool host_computes;
};

constexpr PlacesCase kPlaces[] = {{"NoneRead", 0, HostExpertChoice::kGpu, false},
                                  {"NoneComputed", 0, HostExpertChoice::kAuto, true},
                                  {"SomeRead", 0.4, HostExpertChoice::kGpu, false},
                                  {"SomeComputed", 0.6, HostExpertChoice::kCpu, true},
                                  {"MostRead", 0.9, HostExpertChoice::kAuto, false},
                                  {"AllThere", 1, HostExpertChoice::kCpu, false}};

class GpuExperts : public ::testing::TestWithParam<testing::CheckpointCase> {};

TEST_P(GpuExperts, GiveTheBitsOfTheCpuWhereverTheyAre) {
  const auto directory = GetParam().Directory();
  if (!directory) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const ModelOptions options = MakeOptions(GetParam(), HostExpertChoice::kAuto);
  testing::TestModel cpu(*directory, options);
  EXPECT_EQ(cpu.model().memory_plan(), nullptr);
  const std::vector<Token> tokens = testing::RandomTokens(cpu.model().config(), kExpertTokens, 3);
  const std::vector<std::int64_t> chunks = {kExpertTokens - 2, 1};
  const testing::Sequence expected = testing::RunAlone(cpu.model(), tokens, chunks);
  const MemoryNeeds needs = NeedsOnGpu(*directory, options);
  for (const PlacesCase& places : kPlaces) {
    SCOPED_TRACE(places.name);
    std::int64_t n_experts = 0;
    for (const std::int64_t n : needs.experts) n_experts += n;
    const auto n_wanted =
        static_cast<std::int64_t>(places.on_device * static_cast<double>(n_experts));
    const EmulatorOptions gpu = {.wave_size = places.host_computes ? 64 : 32,
                                 .visiting = Visiting::kDescending,
                                 .runs_when_awaited = places.host_computes,
                                 .memory_bytes = FreeFor(needs, n_wanted)};
    testing::TestModel model(*directory, MakeOptions(GetParam(), places.choice),
                             testing::OnEmulatedGpu(gpu));
    const MemoryPlan& plan = *model.model().memory_plan();
    EXPECT_EQ(plan.free, gpu.memory_bytes);
    EXPECT_EQ(plan.n_on_device(), n_wanted);
    EXPECT_EQ(plan.places.host_computes, places.host_computes);
    const testing::Sequence found = testing::RunAlone(model.model(), tokens, chunks);
    testing::ExpectSameBits(expected, found, kExpertTokens, places.name);
  }
}

// A device that shares the memory of the host copies no weights.
TEST_P(GpuExperts, GiveTheBitsOfTheCpuInPlace) {
  const auto directory = GetParam().Directory();
  if (!directory) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const ModelOptions options = MakeOptions(GetParam(), HostExpertChoice::kAuto);
  testing::TestModel cpu(*directory, options);
  const std::vector<Token> tokens = testing::RandomTokens(cpu.model().config(), kExpertTokens, 3);
  const std::vector<std::int64_t> chunks = {kExpertTokens};
  const testing::Sequence expected = testing::RunAlone(cpu.model(), tokens, chunks);
  const MemoryNeeds copied = NeedsOnGpu(*directory, options);
  const std::int64_t bytes = copied.activations + copied.caches + copied.staging;
  testing::TestModel model(
      *directory, options,
      testing::OnEmulatedGpu({.memory_bytes = RoundUp(bytes / 63 * 64 + 64, kGpuPieceAlignment),
                              .is_integrated = true}));
  const MemoryPlan& plan = *model.model().memory_plan();
  EXPECT_EQ(plan.needs.dense + plan.needs.draft + plan.needs.expert, 0);
  EXPECT_EQ(plan.n_on_device(), plan.n_experts());
  const testing::Sequence found = testing::RunAlone(model.model(), tokens, chunks);
  testing::ExpectSameBits(expected, found, kExpertTokens, "in place");
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GpuExperts,
                         ::testing::Values(testing::kFairy, testing::kFlashMini),
                         testing::NameOfCase);

// The error comes before anything is read or allocated.
TEST(GpuMemory, ThatIsTooSmallIsAnError) {
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  const ModelOptions options = MakeOptions(testing::kFairy, HostExpertChoice::kAuto);
  const std::int64_t least = FreeFor(NeedsOnGpu(*directory, options), 0);
  const auto load = [&](std::int64_t bytes) {
    const std::unique_ptr<Backend> backend =
        testing::MakeTestBackend(testing::OnEmulatedGpu({.memory_bytes = bytes}));
    const Result<std::unique_ptr<Model>> model = Model::Load(*directory, *backend, options);
    return model ? std::string() : model.error().message;
  };
  EXPECT_EQ(load(least), "");
  const std::string message = load(least / 4 * 3);
  EXPECT_EQ(message.find("memory of the device: expected at least 0.0"), 0u) << message;
  for (const char* part : {"dense weights", "draft head", "caches", "activations", "staging",
                           "found 0.0", "--kv-memory", "--max-batch-tokens"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

TEST(GpuMemory, WithoutABackendOfTheHostItComputesNoExperts) {
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  const ModelOptions options = MakeOptions(testing::kFairy, HostExpertChoice::kCpu);
  const std::int64_t bytes = FreeFor(NeedsOnGpu(*directory, options), 5);
  const Result<std::unique_ptr<GpuBackend>> gpu =
      GpuBackend::Make(MakeEmulatorDriver({.memory_bytes = bytes}));
  ASSERT_TRUE(gpu);
  const Result<std::unique_ptr<Model>> model = Model::Load(*directory, **gpu, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported) << model.error().message;
}

}  // namespace
}  // namespace fathom::testing
