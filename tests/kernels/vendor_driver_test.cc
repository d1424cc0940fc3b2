// Memory, order and errors of a device behind a driver whose work runs as late as it may.
#include "kernels/vendor/vendor_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/gpu/gpu_roofline.h"
#include "tests/kernels/vendor_driver_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> RandomBytes(std::size_t n) {
  std::mt19937 random(static_cast<std::uint32_t>(n));
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(VendorDriverTest, MemoryIsZeroedAndAligned) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kShared}) {
    for (const std::int64_t bytes : {0, 1, 1000, 1 << 20}) {
      const std::unique_ptr<Buffer> buffer = Allocate(bytes, kind);
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address()) % 256, 0u);
      EXPECT_EQ(buffer->host().size(),
                kind == MemoryKind::kShared ? static_cast<std::size_t>(bytes) : 0u);
      ASSERT_TRUE(driver().Synchronize());
      const std::span<const std::byte> content(buffer->address(), static_cast<std::size_t>(bytes));
      EXPECT_EQ(std::ranges::count(content, std::byte{0}), bytes);
    }
  }
}

TEST_P(VendorDriverTest, UploadsAreReadBeforeTheCallReturns) {
  for (const std::size_t n : {1u, 4096u, (1u << 20) - 1, 3u << 20, 20u << 20}) {
    const std::unique_ptr<Buffer> buffer =
        Allocate(static_cast<std::int64_t>(n), MemoryKind::kDevice);
    const std::vector<std::byte> bytes = RandomBytes(n);
    std::vector<std::byte> from = bytes;
    driver().Upload(buffer->address(), from);
    std::ranges::fill(from, std::byte{1});
    ASSERT_TRUE(driver().Synchronize());
    EXPECT_EQ(std::memcmp(buffer->address(), bytes.data(), n), 0) << n;
  }
}

// More than the staging memory has room for, in pieces that do not fit its segments.
TEST_P(VendorDriverTest, ManyUploadsArriveInOrder) {
  constexpr std::size_t kPiece = 300007;
  const std::vector<std::byte> bytes = RandomBytes(100 * kPiece);
  const std::unique_ptr<Buffer> buffer =
      Allocate(static_cast<std::int64_t>(bytes.size()), MemoryKind::kDevice);
  std::vector<std::byte> piece(kPiece);
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), kPiece, piece.begin());
    driver().Upload(buffer->address() + at, piece);
  }
  ASSERT_TRUE(driver().Synchronize());
  EXPECT_EQ(std::memcmp(buffer->address(), bytes.data(), bytes.size()), 0);
}

TEST_P(VendorDriverTest, WaitsForWhatWasBeforeTheMark) {
  const std::unique_ptr<Buffer> buffer = Allocate(2, MemoryKind::kDevice);
  const std::array<std::byte, 2> bytes = {std::byte{1}, std::byte{2}};
  driver().Upload(buffer->address(), bytes);
  std::array<std::byte, 1> first{};
  std::array<std::byte, 1> second{};
  driver().Download(first, buffer->address());
  const Ticket ticket = driver().Mark();
  driver().Download(second, buffer->address() + 1);
  ASSERT_TRUE(driver().Wait(ticket));
  EXPECT_EQ(first[0], bytes[0]);
  EXPECT_EQ(second[0], std::byte{0});
  ASSERT_TRUE(driver().Wait(driver().Mark()));
  EXPECT_EQ(second[0], bytes[1]);
}

TEST_P(VendorDriverTest, AnyNumberOfMarks) {
  const std::unique_ptr<Buffer> buffer = Allocate(1, MemoryKind::kDevice);
  std::vector<Ticket> tickets;
  std::vector<std::byte> found(1000);
  for (std::byte& byte : found) {
    const std::array<std::byte, 1> value = {static_cast<std::byte>(&byte - found.data())};
    driver().Upload(buffer->address(), value);
    driver().Download({&byte, 1}, buffer->address());
    tickets.push_back(driver().Mark());
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(driver().Wait(tickets[i]));
    ASSERT_EQ(found[i], static_cast<std::byte>(i));
  }
}

// A piece of work of the fake driver takes a millisecond.
TEST_P(VendorDriverTest, TimesTheWorkBetweenMarks) {
  const std::unique_ptr<GpuTimer> timer = driver().MakeTimer(3, TimedWork::kLong).value();
  timer->Mark(0);
  driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  timer->Mark(1);
  for (int i = 0; i < 3; ++i) driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  timer->Mark(2);
  EXPECT_NEAR(timer->SecondsBetween(0, 1).value(), 0.001, 1e-9);
  EXPECT_EQ(fake().launches.size(), 1u);  // what is behind the marks is not awaited
  EXPECT_NEAR(timer->SecondsBetween(0, 2).value(), 0.004, 1e-9);
  timer->Mark(0);
  driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  timer->Mark(1);
  EXPECT_NEAR(timer->SecondsBetween(0, 1).value(), 0.001, 1e-9);
}

// Marks around a short launch: the host needs longer to enqueue each of them than the device for
// the launch, and the device must not wait for the host in between.
TEST_P(VendorDriverTest, ShortLaunchesAreTimedWithoutTheHost) {
  ASSERT_NO_FATAL_FAILURE(Reopen({.uses_graphs = true}));
  fake().call_ms = 5;
  const auto measure = [&](TimedWork work) {
    const std::unique_ptr<GpuTimer> timer = driver().MakeTimer(300, work).value();
    for (int mark = 0; mark < 300; mark += 2) {
      timer->Mark(mark);
      driver().Launch(GpuKernel{}, {}, RandomBytes(8));
      timer->Mark(mark + 1);
    }
    double most = 0;
    for (int mark = 0; mark < 300; mark += 2) {
      most = std::max(most, timer->SecondsBetween(mark, mark + 1).value());
    }
    return most;
  };
  EXPECT_NEAR(measure(TimedWork::kLong), 0.010, 1e-9);
  const double single = measure(TimedWork::kSingleLaunches);
  EXPECT_NEAR(single, is_cuda() ? 0.001 : 0.010, 1e-9);  // HIP's graphs record no events
  EXPECT_EQ(fake().live["graph"], 0);
  fake().errors["ready_graph"] = 801;
  EXPECT_NEAR(measure(TimedWork::kSingleLaunches), 0.010, 1e-9);
}

// Launches one by one, and as a graph.
TEST_P(VendorDriverTest, TheRooflineHasBothTimesOfALaunch) {
  fake().call_ms = 5;
  for (const bool uses_graphs : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(Reopen({.uses_graphs = uses_graphs}));
    const std::unique_ptr<RooflineProbe> probe =
        MakeGpuRooflineProbe(driver(), {.buffer_bytes = 1 << 16}).value();
    const Roofline measured = probe->Measure().value();
    EXPECT_NEAR(measured.launch_us, 5000, 50);
    EXPECT_NEAR(measured.graph_launch_us, uses_graphs ? 1000 : 0, 50);
  }
}

TEST_P(VendorDriverTest, TimersThatFail) {
  fake().errors["make_event"] = 719;
  const Result<std::unique_ptr<GpuTimer>> none = driver().MakeTimer(1, TimedWork::kLong);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            Name() + ", making a timer: unspecified launch failure (error 719)");
  fake().errors.clear();
  const std::unique_ptr<GpuTimer> timer = driver().MakeTimer(2, TimedWork::kLong).value();
  timer->Mark(0);
  timer->Mark(1);
  fake().errors["elapsed_time"] = 719;
  EXPECT_EQ(timer->SecondsBetween(0, 1).error().message,
            Name() + ", the time of its work: unspecified launch failure (error 719)");
  fake().errors.clear();
  ExpectKept(Name() + ", the time of its work: unspecified launch failure (error 719)");
}

TEST_P(VendorDriverTest, LaunchesRunInOrderWithTheirArguments) {
  fake().argument_bytes = 8;
  std::vector<std::byte> arguments = RandomBytes(8);
  const std::vector<std::byte> expected = arguments;
  driver().Launch(GpuKernel{}, {.x = 70000, .y = 3, .threads = 128, .shared_bytes = 512},
                  arguments);
  std::ranges::fill(arguments, std::byte{0});
  driver().Launch(GpuKernel{}, {.x = 0, .threads = 64}, arguments);
  driver().Launch(GpuKernel{}, {.threads = 64}, arguments);
  ASSERT_TRUE(driver().Synchronize());
  ASSERT_EQ(fake().launches.size(), 2u);
  EXPECT_EQ(fake().launches[0].kernel, kGpuKernelNames[0]);
  EXPECT_THAT(fake().launches[0].grid, ElementsAre(70000, 3, 1, 128, 1, 1, 512));
  EXPECT_EQ(fake().launches[0].arguments, expected);
  EXPECT_THAT(fake().launches[1].grid, ElementsAre(1, 1, 1, 64, 1, 1, 0));
  EXPECT_EQ(fake().launches[1].arguments, arguments);
}

TEST_P(VendorDriverTest, SharedMemoryIsAnnouncedOnce) {
  const std::vector<std::byte> none;
  driver().Launch(GpuKernel{}, {.shared_bytes = 60000}, none);
  EXPECT_EQ(fake().shared_bytes_allowed, is_cuda() ? 60000 : 0);
  driver().Launch(GpuKernel{}, {.shared_bytes = 50000}, none);
  EXPECT_EQ(fake().shared_bytes_allowed, is_cuda() ? 60000 : 0);
  ASSERT_TRUE(driver().Synchronize());
  driver().Launch(GpuKernel{}, {.shared_bytes = 1 << 20}, none);
  ExpectKept(Name() + ": expected 1048576 bytes of shared memory of a block, found " +
             (is_cuda() ? "232448" : "65536"));
}

TEST_P(VendorDriverTest, MemoryIsTooSmall) {
  const auto error = [&](MemoryKind kind) {
    const Result<std::unique_ptr<Buffer>> buffer = driver().Allocate(std::int64_t{3} << 30, kind);
    EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
    return buffer.error().message;
  };
  EXPECT_EQ(error(MemoryKind::kDevice),
            Name() + ": expected 3.00 GiB of free memory, found 1.00 of 80.00 GiB");
  EXPECT_EQ(error(MemoryKind::kShared),
            Name() + ": expected 3.00 GiB of memory of the host that can be pinned, found less");
  ASSERT_TRUE(driver().Synchronize());  // the device goes on
}

TEST_P(VendorDriverTest, MemoryThatCannotBeUsedIsFreed) {
  fake().moves_host_memory = true;
  const Result<std::unique_ptr<Buffer>> moved = driver().Allocate(8, MemoryKind::kShared);
  ASSERT_FALSE(moved);
  EXPECT_THAT(moved.error().message, HasSubstr("at the same address on the device"));
  for (const char* function : {"allocate", "fill"}) {
    fake().errors = {{function, 719}};
    const Result<std::unique_ptr<Buffer>> failed = driver().Allocate(8, MemoryKind::kDevice);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message,
              Name() + ", allocating memory: unspecified launch failure (error 719)");
  }
}

TEST_P(VendorDriverTest, ALaunchThatFailsIsNamedAndKept) {
  fake().errors["launch"] = 719;
  driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  driver().Mark();  // which enqueues the launch
  fake().errors.clear();
  ExpectKept(Name() + ", kernel " + std::string(kGpuKernelNames[0]) +
             ", grid 1 x 1 of 1 threads: unspecified launch failure (error 719)");
}

TEST_P(VendorDriverTest, WorkThatFailsIsKept) {
  fake().work_errors["launch"] = 719;
  driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  driver().Mark();  // which enqueues the launch
  fake().work_errors.clear();
  EXPECT_FALSE(driver().Wait(driver().Mark()));
  ExpectKept(Name() +
             ": unspecified launch failure (error 719); with FATHOM_GPU_SYNC=1 in the environment "
             "the error names the kernel");
}

// Waits after each launch: the error has the kernel whose work failed, not a later one.
TEST_P(VendorDriverTest, WorkThatFailsIsNamedWhereEachLaunchIsAwaited) {
  ASSERT_NO_FATAL_FAILURE(Reopen({.waits_after_each = true}));
  fake().fails = kGpuKernelNames[1];
  driver().Launch(static_cast<GpuKernel>(0), {.x = 2, .threads = 64}, RandomBytes(8));
  EXPECT_EQ(fake().launches.size(), 1u);
  driver().Launch(static_cast<GpuKernel>(1), {.x = 96, .threads = 256}, RandomBytes(8));
  driver().Launch(static_cast<GpuKernel>(2), {.x = 2, .threads = 64}, RandomBytes(8));
  EXPECT_EQ(fake().launches.size(), 1u);
  ExpectKept(Name() + ", kernel " + std::string(kGpuKernelNames[1]) +
             ", grid 96 x 1 of 256 threads: unspecified launch failure (error 719)");
}

TEST_P(VendorDriverTest, CopiesThatFailAreNamedWhereEachIsAwaited) {
  ASSERT_NO_FATAL_FAILURE(Reopen({.waits_after_each = true}));
  const std::unique_ptr<Buffer> buffer = Allocate(8, MemoryKind::kDevice);
  fake().work_errors["download"] = 719;
  std::array<std::byte, 8> to{};
  driver().Download(to, buffer->address());
  ExpectKept(Name() + ", a copy from it: unspecified launch failure (error 719)");
}

// HIP counts the threads of a launch in 32 bits.
TEST_P(VendorDriverTest, GridsWithTooManyThreadsAreRefused) {
  driver().Launch(GpuKernel{}, {.x = (1 << 24) - 1, .threads = 256}, RandomBytes(8));
  EXPECT_TRUE(driver().Synchronize());
  driver().Launch(GpuKernel{}, {.x = 1 << 24, .threads = 256}, RandomBytes(8));
  if (is_cuda()) {
    EXPECT_TRUE(driver().Synchronize());
  } else {
    ExpectKept(Name() + ", kernel " + std::string(kGpuKernelNames[0]) +
               ", grid 16777216 x 1 of 256 threads: expected at most 4294967295 threads of a "
               "launch");
  }
}

// AMD's devices read coherent memory of the host anew with each load.
TEST_P(VendorDriverTest, MemoryThatIsOnlyReadMayBeCached) {
  constexpr unsigned kCoherent = 0x40000000;
  constexpr unsigned kNonCoherent = 0x80000000;
  const std::unique_ptr<Buffer> shared = Allocate(8, MemoryKind::kShared);
  const std::unique_ptr<Buffer> read_only = Allocate(8, MemoryKind::kSharedReadOnly);
  EXPECT_EQ(read_only->host().size(), 8u);
  const unsigned vendor_flag = is_cuda() ? 0 : kCoherent | kNonCoherent;
  EXPECT_EQ(fake().host_flags[shared->address()] & vendor_flag, is_cuda() ? 0 : kCoherent);
  EXPECT_EQ(fake().host_flags[read_only->address()] & vendor_flag, is_cuda() ? 0 : kNonCoherent);
}

// Pages that pieces share are registered once, and all are released with the driver.
TEST_P(VendorDriverTest, IntegratedDevicesReadInPlace) {
  EXPECT_FALSE(driver().device().reads_weights_in_place);
  fake().gpus.front().is_integrated = true;
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_TRUE(driver().device().reads_weights_in_place);
  constexpr std::size_t kPage = 4096;
  const std::vector<std::byte> memory(16 * kPage);
  const std::byte* const first =
      memory.data() + (kPage - reinterpret_cast<std::uintptr_t>(memory.data()) % kPage);
  const auto pages = [&](std::size_t begin, std::size_t bytes) {
    return std::span<const std::byte>(first + begin, bytes);
  };
  const auto registered = [&] {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (const auto& [begin, bytes] : fake().registered) {
      ranges.emplace_back(static_cast<const std::byte*>(begin) - first, bytes);
    }
    return ranges;
  };
  using Range = std::pair<std::size_t, std::size_t>;
  const std::span<const std::byte> apart[] = {pages(5 * kPage + 7, 10), pages(kPage - 1, 2)};
  ASSERT_TRUE(driver().ReadInPlace(apart));
  EXPECT_THAT(registered(), ElementsAre(Range{0, 2 * kPage}, Range{5 * kPage, kPage}));
  const std::span<const std::byte> across[] = {pages(kPage, 6 * kPage), {}};
  ASSERT_TRUE(driver().ReadInPlace(across));
  EXPECT_THAT(registered(), ElementsAre(Range{0, 2 * kPage}, Range{2 * kPage, 3 * kPage},
                                        Range{5 * kPage, kPage}, Range{6 * kPage, kPage}));
  fake().errors["register_host"] = 2;
  const std::span<const std::byte> last[] = {pages(9 * kPage, 1)};
  EXPECT_EQ(driver().ReadInPlace(last).error().message,
            Name() +
                ": expected memory of the host that can be pinned for weights, found: unknown "
                "(error 2)");
  EXPECT_TRUE(driver().ReadInPlace(apart));  // nothing new
}

TEST_P(VendorDriverTest, DriversThatRegisterNothingReadNothingInPlace) {
  fake().gpus.front().is_integrated = true;
  fake().errors["register_host"] = 801;
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_FALSE(driver().device().reads_weights_in_place);
  fake().errors.clear();
  fake().moves_host_memory = true;
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_FALSE(driver().device().reads_weights_in_place);
}

TEST_P(VendorDriverTest, CopiesThatFailAreKept) {
  const std::unique_ptr<Buffer> buffer = Allocate(8, MemoryKind::kDevice);
  fake().errors["upload"] = 719;
  driver().Upload(buffer->address(), RandomBytes(8));
  ExpectKept(Name() + ", a copy to it: unspecified launch failure (error 719)");
}

INSTANTIATE_TEST_SUITE_P(Vendors, VendorDriverTest,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);

}  // namespace
}  // namespace fathom::testing
