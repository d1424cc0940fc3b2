// Profiles: every piece of work once, its time, and the bytes that its arguments name.
#include "kernels/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/emulator/emulator_driver.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/gpu/profiled_driver.h"
#include "kernels/registry.h"
#include "tests/kernels/fake_gpu.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

std::map<std::string, ProfileRow> ByName(const Profile& profile) {
  std::map<std::string, ProfileRow> rows;
  for (const ProfileRow& row : profile.rows) rows[row.name] = row;
  return rows;
}

class FakeProfile : public FakeGpuTest {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeProfile,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);

// A piece of work of the fake driver takes a millisecond; more pieces than there are marks.
TEST_P(FakeProfile, CountsEveryPieceOnce) {
  constexpr int kLaunches = 5000;
  const gpu::SwiGluArguments arguments = {.n = 100};
  ProfiledDriver driver(OpenDriver());
  const auto launch = [&](const GpuGrid& grid) {
    driver.Launch(GpuKernel::kSwiGlu, grid, std::as_bytes(std::span(&arguments, 1)));
  };
  launch({});  // before the profile
  ASSERT_TRUE(driver.StartProfile());
  const std::unique_ptr<Buffer> buffer = driver.Allocate(8, MemoryKind::kDevice).value();
  for (int i = 0; i < kLaunches; ++i) launch({});
  launch({.x = 0});
  const std::vector<std::byte> bytes(8);
  driver.Upload(buffer->address(), bytes);
  const Profile profile = driver.StopProfile().value();
  launch({});  // behind it
  std::map<std::string, ProfileRow> rows = ByName(profile);
  EXPECT_EQ(rows["SwiGlu"].n, kLaunches);
  EXPECT_NEAR(rows["SwiGlu"].seconds, 1e-3 * kLaunches, 1e-6);
  EXPECT_EQ(rows["SwiGlu"].bytes, 600.0 * kLaunches);
  EXPECT_EQ(rows["(copies to the device)"].n, 1);
  EXPECT_EQ(rows["(copies to the device)"].bytes, 8.0);
  EXPECT_EQ(rows["(between)"].bytes, std::nullopt);
  EXPECT_EQ(profile.rows.front().name, "SwiGlu");
  EXPECT_NEAR(profile.seconds(), 1e-3 * (kLaunches + 1), 1e-6);
  EXPECT_EQ(fake().launches.size(), kLaunches + 1u);
}

TEST_P(FakeProfile, EndsWithTheErrorOfTheDevice) {
  const gpu::SwiGluArguments arguments = {.n = 100};
  ProfiledDriver driver(OpenDriver());
  ASSERT_TRUE(driver.StartProfile());
  fake().work_errors["launch"] = 719;
  driver.Launch(GpuKernel::kSwiGlu, {}, std::as_bytes(std::span(&arguments, 1)));
  const Result<Profile> profile = driver.StopProfile();
  fake().work_errors.clear();
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message, HasSubstr("unspecified launch failure"));
}

// Two tokens that choose experts 1 and 3 of four, one of them both: the weights of two count.
TEST(Profile, ReadsTheBytesThatTheDeviceHasChosen) {
  constexpr std::int64_t kHidden = 64;
  constexpr std::int64_t kWidth = 32;
  const std::unique_ptr<GpuBackend> backend = GpuBackend::Make(MakeEmulatorDriver({})).value();
  ASSERT_TRUE(backend->Reserve({.max_tokens = 2,
                                .max_linear_inputs = kHidden,
                                .hidden = kHidden,
                                .experts_per_token = 2,
                                .n_experts = 4,
                                .moe_intermediate = kWidth}));
  const std::vector<Bf16> weights(kHidden * kWidth);
  const auto* const data = reinterpret_cast<const std::byte*>(weights.data());
  const Weight in = {.data = data, .n = kWidth, .k = kHidden};
  const std::vector<ExpertWeights> experts(
      4, {.w1 = in, .w2 = {.data = data, .n = kHidden, .k = kWidth}, .w3 = in});
  const ExpertSet set = backend->BindExperts(0, experts);
  const std::unique_ptr<Buffer> memory = backend->Allocate(1 << 16, MemoryKind::kDevice).value();
  const std::int32_t ids[] = {1, 3, 3, kRemoteExpert};
  backend->Upload(memory->address(), std::as_bytes(std::span(ids)));
  const auto at = [&]<class T>(std::int64_t offset, std::int64_t rows, std::int64_t cols, T) {
    return Matrix<T>{reinterpret_cast<T*>(memory->address() + offset), rows, cols};
  };
  const Routing routing = {at(0, 2, 2, std::int32_t{}), at(64, 2, 2, 0.0f)};
  const std::unique_ptr<Profiler> profiler = backend->MakeProfiler().value();
  ASSERT_TRUE(profiler->Start());
  backend->ExpertRows(at(1024, 2, kHidden, Bf16{}), routing, set, 10.0f,
                      at(4096, 4, kHidden, Bf16{}));
  std::map<std::string, ProfileRow> rows = ByName(profiler->Stop().value());
  ASSERT_EQ(rows.size(), 2u);  // nothing between: the ids were read
  constexpr double kMatrix = 2.0 * kHidden * kWidth;
  EXPECT_EQ(rows["ExpertHidden"].bytes, 2 * 2 * kMatrix + 2.0 * (2 * kHidden + 4 * kWidth));
  EXPECT_EQ(rows["ExpertOutput"].bytes, 2 * kMatrix + 2.0 * (4 * kWidth + 4 * kHidden));
}

TEST(Profile, OfProcessorsIsRefused) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Isa::kScalar, 1).value();
  const Result<std::unique_ptr<Profiler>> profiler = backend->MakeProfiler();
  ASSERT_FALSE(profiler);
  EXPECT_EQ(profiler.error().message, "a profile by kernel: expected a GPU, found reference");
}

}  // namespace
}  // namespace fathom::testing
