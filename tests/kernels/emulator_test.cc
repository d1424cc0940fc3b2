// The emulator finds what a device would do wrong, and runs what is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/gpu/device/norm.h"
#include "kernels/reference/reference_backend.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/kernels/emulator_kernels.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::testing {
namespace {

using emulator::BlockRunner;
using emulator::Kernel;
using emulator::Visiting;
using ::testing::HasSubstr;

constexpr std::int64_t kSharedBytes = 48 << 10;

std::span<const std::byte> BytesOfStruct(const auto& arguments) {
  return std::as_bytes(std::span(&arguments, 1));
}

// Waves of 32 and 64, in every order.
class Emulator : public ::testing::TestWithParam<std::tuple<int, Visiting>> {
 protected:
  int wave_size() const { return std::get<0>(GetParam()); }
  Visiting visiting() const { return std::get<1>(GetParam()); }
  EmulatorOptions Options(bool when_awaited = false) const {
    return {.wave_size = wave_size(),
            .visiting = visiting(),
            .runs_when_awaited = when_awaited,
            .memory_bytes = 1 << 20};
  }
  // The error of a kernel with one block.
  std::string RunForError(const Kernel& kernel, std::int64_t dynamic_bytes = 0) {
    std::vector<std::int32_t> out(256);
    const FaultyArguments arguments = {out.data()};
    BlockRunner runner(wave_size(), kSharedBytes, visiting(), 1);
    const Status status =
        runner.Run("Tested", kernel, {.threads = 128, .shared_bytes = dynamic_bytes}, &arguments);
    out_ = out;
    return status ? "" : status.error().message;
  }

  std::vector<std::int32_t> out_;
};
INSTANTIATE_TEST_SUITE_P(Orders, Emulator,
                         ::testing::Combine(::testing::Values(32, 64),
                                            ::testing::Values(Visiting::kAscending,
                                                              Visiting::kDescending,
                                                              Visiting::kRandom)));

TEST_P(Emulator, ThreadsMeet) {
  constexpr int kBlocks = 5;
  constexpr int kThreads = 256;
  std::vector<float> x(kBlocks * kThreads);
  std::iota(x.begin(), x.end(), 1.0f);
  std::vector<float> sums(kBlocks);
  const WaveSumArguments arguments = {x.data(), sums.data()};
  BlockRunner runner(wave_size(), kSharedBytes, visiting(), 1);
  ASSERT_TRUE(
      runner.Run("WaveSum", WaveSumKernel(), {.x = kBlocks, .threads = kThreads}, &arguments));
  for (int i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(sums[static_cast<std::size_t>(i)],
              std::accumulate(x.begin() + i * kThreads, x.begin() + (i + 1) * kThreads, 0.0f));
  }
}

TEST_P(Emulator, FindsRaces) {
  EXPECT_THAT(RunForError(RacyReadKernel()),
              HasSubstr("kernel Tested, block (0, 0): a race: thread "));
  EXPECT_THAT(RunForError(RacyWriteKernel()), HasSubstr("writes 'numbers' at 0, which thread "));
  EXPECT_THAT(RunForError(WriteBehindReadKernel()), HasSubstr("a race: thread "));
}

TEST_P(Emulator, FindsReadsOfWhatNobodyHasWritten) {
  EXPECT_THAT(RunForError(UnwrittenReadKernel()), HasSubstr("which nobody has written"));
}

TEST_P(Emulator, ChecksIndices) {
  EXPECT_THAT(RunForError(IndexKernel()), HasSubstr("expected an index below 16"));
}

TEST_P(Emulator, FindsDivergence) {
  EXPECT_THAT(RunForError(DivergentBarrierKernel()),
              AllOf(HasSubstr("kernel Tested, block (0, 0): expected all threads at one meeting "
                              "point, found: thread 0 waits at SyncBlock (emulator_kernels.cc:"),
                    HasSubstr("thread 1 has ended")));
  EXPECT_THAT(RunForError(DivergentShuffleKernel()),
              AllOf(HasSubstr("kernel Tested, "), HasSubstr("in one collective"),
                    HasSubstr("waits at Shuffle (emulator_kernels.cc:")));
}

TEST_P(Emulator, GivesDynamicSharedMemory) {
  EXPECT_EQ(RunForError(DynamicKernel(), 16 + 4 * 256), "");
  EXPECT_EQ(out_.front(), 255 * 256 / 2);
  EXPECT_THAT(RunForError(DynamicKernel(), 4 * 256),
              HasSubstr("shared memory 'numbers' ends at byte 1040 of 1024"));
  EXPECT_THAT(RunForError(DynamicKernel(), kSharedBytes + 16),
              HasSubstr("of 49152 bytes are used"));
}

// The driver with a kernel of the device sources: the reference's bits.
TEST_P(Emulator, RunsDeviceSources) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kColumns = 100;
  Random random(1);
  const Owned<Bf16> x = random.Bf16s(kRows, kColumns);
  const Owned<Bf16> weight = random.Bf16s(1, kColumns);
  Owned<Bf16> expected(kRows, kColumns);
  ReferenceBackend().RmsNorm(x.view(), weight.data, 1e-6f, expected.view());
  for (const bool when_awaited : {false, true}) {
    const std::unique_ptr<GpuDriver> driver = MakeEmulatorDriver(Options(when_awaited));
    const auto bytes = static_cast<std::int64_t>(x.data.size() * sizeof(Bf16));
    const std::unique_ptr<Buffer> in = *driver->Allocate(bytes, MemoryKind::kDevice);
    const std::unique_ptr<Buffer> gains = *driver->Allocate(2 * kColumns, MemoryKind::kDevice);
    const std::unique_ptr<Buffer> out = *driver->Allocate(bytes, MemoryKind::kDevice);
    driver->Upload(in->address(), std::as_bytes(std::span(x.data)));
    driver->Upload(gains->address(), std::as_bytes(std::span(weight.data)));
    const gpu::RmsNormArguments arguments = {
        .x = {reinterpret_cast<const Bf16*>(in->address()), kRows, kColumns},
        .weight = reinterpret_cast<const Bf16*>(gains->address()),
        .eps = 1e-6f,
        .out = {reinterpret_cast<Bf16*>(out->address()), kRows, kColumns}};
    driver->Launch(GpuKernel::kRmsNorm, {.x = kRows, .threads = 128}, BytesOfStruct(arguments));
    Owned<Bf16> found(kRows, kColumns);
    driver->Download(std::as_writable_bytes(std::span(found.data)), out->address());
    EXPECT_EQ(found.data == Owned<Bf16>(kRows, kColumns).data, when_awaited);
    ASSERT_TRUE(driver->Wait(driver->Mark()));
    EXPECT_EQ(found.data, expected.data);
  }
}

TEST(EmulatorTimer, NotesWhenWorkRuns) {
  for (const bool when_awaited : {false, true}) {
    const std::unique_ptr<GpuDriver> driver =
        MakeEmulatorDriver({.runs_when_awaited = when_awaited, .memory_bytes = 64 << 20});
    const std::unique_ptr<Buffer> memory = *driver->Allocate(32 << 20, MemoryKind::kDevice);
    const std::unique_ptr<GpuTimer> timer = driver->MakeTimer(2, TimedWork::kLong).value();
    const std::vector<std::byte> bytes(32 << 20);
    timer->Mark(0);
    driver->Upload(memory->address(), bytes);
    timer->Mark(1);
    EXPECT_GT(timer->SecondsBetween(0, 1).value(), 0);
    EXPECT_EQ(timer->SecondsBetween(1, 1).value(), 0);
  }
}

TEST(EmulatorMemory, IsZeroedAndGivenBack) {
  const std::unique_ptr<GpuDriver> driver = MakeEmulatorDriver({.memory_bytes = 4096});
  const std::vector<std::byte> ones(1000, std::byte{1});
  std::vector<std::byte> found(1000, std::byte{9});
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<Buffer> first = *driver->Allocate(1000, MemoryKind::kDevice);
    const std::unique_ptr<Buffer> second = *driver->Allocate(1000, MemoryKind::kDevice);
    driver->Download(found, second->address());
    EXPECT_THAT(found, ::testing::Each(std::byte{0}));
    driver->Upload(first->address(), ones);
    driver->Upload(second->address(), ones);
    driver->Download(found, second->address());
    EXPECT_THAT(found, ::testing::Each(std::byte{1}));
    const Result<std::unique_ptr<Buffer>> third = driver->Allocate(2000, MemoryKind::kDevice);
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().code, ErrorCode::kOutOfMemory);
  }
}

TEST(EmulatorMemoryDeathTest, TheHostCannotReachIt) {
  const std::unique_ptr<GpuDriver> driver = MakeEmulatorDriver({.memory_bytes = 4096});
  const std::unique_ptr<Buffer> memory = *driver->Allocate(8, MemoryKind::kDevice);
  EXPECT_DEATH(*memory->address() = std::byte{1}, "");
  driver->Upload(memory->address(), std::vector<std::byte>(8));
  EXPECT_DEATH(*memory->address() = std::byte{1}, "");
}

}  // namespace
}  // namespace fathom::testing
