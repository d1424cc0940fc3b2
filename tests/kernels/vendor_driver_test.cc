// Memory, order and errors of a device behind a driver whose work runs as late as it may.
#include "kernels/vendor/vendor_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/vendor/launch_graphs.h"
#include "tests/kernels/fake_gpu.h"

namespace fathom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VendorDriverTest : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    driver_ = OpenDriver();
    ASSERT_NE(driver_, nullptr);
  }
  void TearDown() override {
    driver_.reset();
    FakeGpuTest::TearDown();
  }

  // Opens the device anew.
  void Reopen() {
    driver_.reset();
    driver_ = OpenDriver();
    ASSERT_NE(driver_, nullptr);
  }
  GpuDriver& driver() const { return *driver_; }
  std::unique_ptr<Buffer> Allocate(std::int64_t bytes, MemoryKind kind) const {
    return driver_->Allocate(bytes, kind).value();
  }
  std::string Name() const {
    return is_cuda() ? "CUDA device 0 (Fake GPU)" : "HIP device 0 (Fake GPU)";
  }
  // Every later wait returns this.
  void ExpectKept(const std::string& message) const {
    const std::size_t n_queued = fake().queue.size();
    driver_->Launch(GpuKernel{}, {}, {});
    driver_->Upload(nullptr, {});
    EXPECT_EQ(fake().queue.size(), n_queued);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(driver_->Synchronize().error().message, message);
      EXPECT_EQ(driver_->Wait(driver_->Mark()).error().message, message);
    }
  }

 private:
  std::unique_ptr<GpuDriver> driver_;
};

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
  const std::unique_ptr<GpuTimer> timer = driver().MakeTimer(3).value();
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

TEST_P(VendorDriverTest, TimersThatFail) {
  fake().errors["make_event"] = 719;
  const Result<std::unique_ptr<GpuTimer>> none = driver().MakeTimer(1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            Name() + ", making a timer: unspecified launch failure (error 719)");
  fake().errors.clear();
  const std::unique_ptr<GpuTimer> timer = driver().MakeTimer(2).value();
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
  ExpectKept(Name() + ", " + std::string(kGpuKernelNames[0]) +
             ": unspecified launch failure (error 719)");
}

TEST_P(VendorDriverTest, WorkThatFailsIsKept) {
  fake().work_errors["launch"] = 719;
  driver().Launch(GpuKernel{}, {}, RandomBytes(8));
  driver().Mark();  // which enqueues the launch
  fake().work_errors.clear();
  EXPECT_FALSE(driver().Wait(driver().Mark()));
  ExpectKept(Name() + ": unspecified launch failure (error 719)");
}

TEST_P(VendorDriverTest, CopiesThatFailAreKept) {
  const std::unique_ptr<Buffer> buffer = Allocate(8, MemoryKind::kDevice);
  fake().errors["upload"] = 719;
  driver().Upload(buffer->address(), RandomBytes(8));
  ExpectKept(Name() + ", a copy to it: unspecified launch failure (error 719)");
}

// Launches with the arguments first, first + 1, ...
class VendorGraphTest : public VendorDriverTest {
 protected:
  void SetUp() override {
    VendorDriverTest::SetUp();
    fake().argument_bytes = 8;
  }
  void Launch(std::uint64_t first, std::size_t n) const {
    for (std::uint64_t i = first; i < first + n; ++i) {
      driver().Launch(GpuKernel{}, {.x = 3, .threads = 64}, std::as_bytes(std::span(&i, 1)));
    }
  }
  // Waits for all that was launched, and returns the arguments of what has run since the last call.
  std::vector<std::uint64_t> Run() const {
    EXPECT_TRUE(driver().Synchronize());
    std::vector<std::uint64_t> run;
    for (const FakeLaunch& launch : fake().launches) {
      EXPECT_THAT(launch.grid, ElementsAre(3, 1, 1, 64, 1, 1, 0));
      std::memcpy(&run.emplace_back(), launch.arguments.data(), sizeof(std::uint64_t));
    }
    fake().launches.clear();
    return run;
  }
  static std::vector<std::uint64_t> From(std::uint64_t first, std::size_t n) {
    std::vector<std::uint64_t> numbers(n);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }

  static constexpr std::size_t kLeast = LaunchGraphs::kLeastLaunches;
  static constexpr std::size_t kMost = LaunchGraphs::kMostLaunches;
};

TEST_P(VendorGraphTest, ListsThatComeAgainAreGraphs) {
  for (int i = 0; i < 4; ++i) {
    Launch(1, kLeast);
    EXPECT_EQ(Run(), From(1, kLeast));
    EXPECT_EQ(fake().n_graphs_launched, i);
  }
}

TEST_P(VendorGraphTest, ListsThatDifferAreNot) {
  for (std::uint64_t first = 0; first < 5; ++first) {
    Launch(first, kLeast);
    EXPECT_EQ(Run(), From(first, kLeast));
    Launch(0, kLeast + first + 1);
    EXPECT_EQ(Run(), From(0, kLeast + first + 1));
  }
  for (const GpuGrid& grid : {GpuGrid{.x = 4, .threads = 64}, GpuGrid{.x = 3, .threads = 32}}) {
    Launch(0, kLeast - 1);
    const std::uint64_t last = kLeast - 1;
    driver().Launch(GpuKernel{}, grid, std::as_bytes(std::span(&last, 1)));
    ASSERT_TRUE(driver().Synchronize());
    EXPECT_EQ(fake().launches.back().grid.front(), static_cast<unsigned>(grid.x));
    fake().launches.clear();
  }
  EXPECT_EQ(fake().n_graphs_launched, 0);
}

TEST_P(VendorGraphTest, ShortListsAreNot) {
  for (int i = 0; i < 3; ++i) {
    Launch(1, kLeast - 1);
    EXPECT_EQ(Run(), From(1, kLeast - 1));
  }
  EXPECT_EQ(fake().n_graphs_launched, 0);
}

// The device begins before all of a long list was collected.
TEST_P(VendorGraphTest, LongListsAreDivided) {
  constexpr std::size_t kLong = 2 * kMost + kLeast;
  Launch(1, kLong);
  EXPECT_EQ(fake().n_enqueued, 2 * kMost);
  EXPECT_EQ(Run(), From(1, kLong));
  for (int i = 1; i < 3; ++i) {
    Launch(1, kLong);
    EXPECT_EQ(Run(), From(1, kLong));
    EXPECT_EQ(fake().n_graphs_launched, 3 * i);
  }
}

// Work keeps its order, whatever comes between launches.
TEST_P(VendorGraphTest, OtherWorkComesBetweenGraphs) {
  const std::unique_ptr<Buffer> buffer = Allocate(1, MemoryKind::kDevice);
  for (int i = 0; i < 3; ++i) {
    Launch(1, kLeast);
    const std::array<std::byte, 1> value = {static_cast<std::byte>(i + 1)};
    std::array<std::byte, 1> found{};
    driver().Upload(buffer->address(), value);
    driver().Download(found, buffer->address());
    const Ticket ticket = driver().Mark();
    Launch(100, kLeast);
    ASSERT_TRUE(driver().Wait(ticket));
    EXPECT_EQ(found, value);
    EXPECT_EQ(fake().launches.size(), kLeast);
    EXPECT_EQ(fake().queue.size(), kLeast);  // the device does not wait for the next call
    EXPECT_EQ(Run().size(), 2 * kLeast);
  }
  EXPECT_EQ(fake().n_graphs_launched, 4);
}

TEST_P(VendorGraphTest, MemoryIsFreedBehindTheLaunchesThatUseIt) {
  std::unique_ptr<Buffer> buffer = Allocate(1, MemoryKind::kDevice);
  EXPECT_EQ(Run(), From(0, 0));
  Launch(1, 3);
  EXPECT_EQ(fake().queue.size(), 0u);
  buffer.reset();
  EXPECT_EQ(fake().queue.size(), 3u);
}

TEST_P(VendorGraphTest, OldListsAreForgotten) {
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::uint64_t list = 0; list < LaunchGraphs::kMostLists + 5; ++list) {
      for (int i = 0; i < 3; ++i) {
        Launch(list, kLeast);
        EXPECT_EQ(Run(), From(list, kLeast));
      }
    }
    EXPECT_EQ(fake().live["ready graph"], static_cast<std::int64_t>(LaunchGraphs::kMostLists));
    EXPECT_EQ(fake().live["graph"], 0);
  }
}

TEST_P(VendorGraphTest, ADriverThatMakesNoGraphsGetsLaunches) {
  for (const char* function : {"begin_capture", "end_capture", "ready_graph"}) {
    ASSERT_NO_FATAL_FAILURE(Reopen());
    fake().errors = {{function, 801}};
    for (int i = 0; i < 4; ++i) {
      Launch(1, kLeast);
      EXPECT_EQ(Run(), From(1, kLeast)) << function;
      if (i == 1) fake().errors.clear();  // it is not asked again
    }
    EXPECT_EQ(fake().n_graphs_launched, 0) << function;
  }
}

TEST_P(VendorGraphTest, AGraphThatFailsIsNamedAndKept) {
  for (int i = 0; i < 2; ++i) {
    Launch(1, kLeast);
    Run();
  }
  fake().errors["launch_graph"] = 719;
  Launch(1, kLeast);
  driver().Mark();
  fake().errors.clear();
  ExpectKept(Name() + ", a graph of kernels: unspecified launch failure (error 719)");
}

INSTANTIATE_TEST_SUITE_P(Vendors, VendorGraphTest,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);
INSTANTIATE_TEST_SUITE_P(Vendors, VendorDriverTest,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);

}  // namespace
}  // namespace fathom::testing
