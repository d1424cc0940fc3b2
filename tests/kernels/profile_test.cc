// Profiles: every piece of work once, its time, and the bytes that its arguments name.
#include "kernels/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/gpu/profiled_driver.h"
#include "kernels/profile_recorder.h"
#include "kernels/registry.h"
#include "tests/emulator/emulator_driver.h"
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
  EXPECT_EQ(rows["SwiGlu"].cost.bytes, 600.0 * kLaunches);
  EXPECT_EQ(rows["(copies to the device)"].n, 1);
  EXPECT_EQ(rows["(copies to the device)"].cost.bytes, 8.0);
  EXPECT_EQ(rows["(between)"].cost.bytes, std::nullopt);
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
  EXPECT_EQ(rows["ExpertHidden"].cost.bytes, 2 * 2 * kMatrix + 2.0 * (2 * kHidden + 4 * kWidth));
  EXPECT_EQ(rows["ExpertOutput"].cost.bytes, 2 * kMatrix + 2.0 * (4 * kWidth + 4 * kHidden));
}

TEST(Profile, OfABackendThatWasNotMadeForItIsRefused) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Isa::kScalar, 1).value();
  const Result<std::unique_ptr<Profiler>> profiler = backend->MakeProfiler();
  ASSERT_FALSE(profiler);
  EXPECT_EQ(profiler.error().message,
            "a profile: expected a backend made to be profiled, found reference");
}

TEST(ProfileRecorder, AddsUpByPartAndName) {
  ProfileRecorder recorder;
  recorder.Add(recorder.part(), "Embed", 1, {.bytes = 8.0});
  recorder.EnterPart("ratio 4");
  recorder.Add(recorder.part(), "Linear", 2, {.bytes = 10.0, .flops = 3.0});
  recorder.AddBetween(0.5);
  recorder.EnterPart("ratio 128");
  recorder.Add(recorder.part(), "Linear", 4, {.bytes = 10.0, .flops = 3.0});
  recorder.EnterPart("ratio 4");
  recorder.Add(recorder.part(), "Linear", 8, {.flops = 5.0});
  const Profile profile = recorder.Take();
  EXPECT_EQ(profile.seconds(), 15.5);
  ASSERT_EQ(profile.rows.size(), 4u);
  EXPECT_EQ(profile.rows[0].part, "ratio 4");
  EXPECT_EQ(profile.rows[0].n, 2);
  EXPECT_EQ(profile.rows[0].cost.bytes, std::nullopt);  // of one of the two
  EXPECT_EQ(profile.rows[0].cost.flops, 8.0);
  EXPECT_EQ(profile.rows[1].part, "ratio 128");
  EXPECT_EQ(profile.rows[3].name, "(between)");
  ASSERT_EQ(profile.events.size(), 5u);
  EXPECT_EQ(profile.events[3].start, 3.5);
  EXPECT_EQ(profile.events[3].seconds, 4);
  EXPECT_EQ(recorder.Take().rows.size(), 0u);
}

// The operations give what they give without a profile (conformance tests them); a profile counts
// them, and its rows are all of its time.
TEST(Profile, OfProcessorsHasEveryOperation) {
  constexpr std::int64_t kWidth = 256;
  const std::unique_ptr<Backend> backend =
      MakeBackend("cpu", {.cpu_isa = Isa::kScalar, .can_profile = true}).value();
  const std::unique_ptr<Profiler> profiler = backend->MakeProfiler().value();
  const std::vector<Bf16> weights(kWidth * kWidth, ToBf16(1.0f));
  const std::vector<Bf16> x(3 * kWidth, ToBf16(1.0f));
  std::vector<Bf16> y(3 * kWidth);
  const Weight w = {
      .data = reinterpret_cast<const std::byte*>(weights.data()), .n = kWidth, .k = kWidth};
  const auto run = [&] {
    backend->Linear({x.data(), 3, kWidth}, w, Matrix<Bf16>{y.data(), 3, kWidth});
  };
  run();  // before the profile
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(profiler->Start());
  profiler->EnterPart("ratio 4");
  run();
  run();
  const Profile profile = profiler->Stop().value();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(y.front(), ToBf16(256.0f));
  std::map<std::string, ProfileRow> rows = ByName(profile);
  const ProfileRow& row = rows["Linear BF16 [256, 256]"];
  EXPECT_EQ(row.n, 2);
  EXPECT_EQ(row.part, "ratio 4");
  EXPECT_EQ(row.cost.bytes, 2 * 2.0 * (kWidth * kWidth + 2 * 3 * kWidth));
  EXPECT_EQ(row.cost.flops, 2 * 2.0 * 3 * kWidth * kWidth);
  EXPECT_EQ(rows["(between)"].n, 3);
  EXPECT_LE(profile.seconds(), seconds.count());
  EXPECT_GT(profile.seconds(), 0);
}

}  // namespace
}  // namespace fathom::testing
