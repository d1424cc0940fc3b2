// Several emulated devices in one process: kernels that write each other's memory and wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "tests/emulator/emulator_driver.h"
#include "tests/kernels/hopper_runs.h"

namespace fathom::testing {
namespace {

using emulator::Visiting;
using ::testing::HasSubstr;

constexpr GpuGrid kPeerGrid = {.x = 3, .threads = 64};
constexpr int kPeerNumbers = 3 * 64;

// Devices with the memory that PeerSum uses.
class Peers {
 public:
  Peers(int n, Visiting visiting, bool access) {
    drivers_ = MakeEmulatorDrivers({.visiting = visiting, .memory_bytes = 1 << 20}, n, access);
    for (const auto& driver : drivers_) {
      const auto allocate = [&](std::int64_t bytes) {
        memory_.push_back(*driver->Allocate(bytes, MemoryKind::kDevice));
        return memory_.back()->address();
      };
      told_.push_back(reinterpret_cast<std::int32_t*>(allocate(4 * kPeerNumbers * n)));
      flags_.push_back(reinterpret_cast<std::uint32_t*>(allocate(8)));
      out_.push_back(reinterpret_cast<std::int32_t*>(allocate(4 * kPeerNumbers)));
    }
  }
  void Launch(int rank) {
    const auto n = static_cast<std::int32_t>(drivers_.size());
    PeerSumArguments arguments = {.rank = rank, .n_ranks = n, .first = 1000 * (rank + 1)};
    for (std::size_t i = 0; i < drivers_.size(); ++i) {
      arguments.told[i] = told_[i];
      arguments.flags[i] = flags_[i];
    }
    arguments.out = out_[static_cast<std::size_t>(rank)];
    LaunchEmulated(driver(rank), {.name = "PeerSum",
                                  .kernel = fathom_emulated_PeerSum(),
                                  .grid = kPeerGrid,
                                  .arguments = std::as_bytes(std::span(&arguments, 1))});
  }
  GpuDriver& driver(int rank) { return *drivers_[static_cast<std::size_t>(rank)]; }
  const std::uint32_t* flags(int rank) const { return flags_[static_cast<std::size_t>(rank)]; }
  const std::int32_t* out(int rank) const { return out_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<GpuDriver>> drivers_;
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::vector<std::int32_t*> told_;
  std::vector<std::uint32_t*> flags_;
  std::vector<std::int32_t*> out_;
};

using EmulatedDevices = ::testing::TestWithParam<Visiting>;
INSTANTIATE_TEST_SUITE_P(Orders, EmulatedDevices,
                         ::testing::Values(Visiting::kAscending, Visiting::kDescending,
                                           Visiting::kRandom));

TEST_P(EmulatedDevices, WriteEachOthersMemoryAndWait) {
  for (const int n : {1, 2, 3, 4}) {
    Peers peers(n, GetParam(), /*access=*/true);
    for (int rank = 0; rank < n; ++rank) {
      peers.Launch(rank);
    }
    for (int rank = 0; rank < n; ++rank) {
      std::vector<std::int32_t> found(kPeerNumbers);
      peers.driver(rank).Download(std::as_writable_bytes(std::span(found)), peers.out(rank));
      std::vector<std::uint32_t> flags(2);
      peers.driver(rank).Download(std::as_writable_bytes(std::span(flags)), peers.flags(rank));
      const Status status = peers.driver(rank).Synchronize();
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_THAT(flags, ::testing::ElementsAre(static_cast<std::uint32_t>(3 * n), 1u));
      for (int i = 0; i < kPeerNumbers; ++i) {
        // Every peer's number of the thread that is as far from the end.
        EXPECT_EQ(found[static_cast<std::size_t>(i)], 1000 * n * (n + 1) / 2 + n * (63 - i % 64));
      }
    }
  }
}

TEST_P(EmulatedDevices, FindAKernelThatWaitsForOneThatIsNotLaunched) {
  Peers peers(2, GetParam(), /*access=*/true);
  peers.Launch(0);
  const Status status = peers.driver(0).Synchronize();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("kernel PeerSum, block ("),
                    HasSubstr("expected a thread that can go on, found: thread 0 waits at "
                              "WaitForFlag (hopper_meetings.cu:")));
  EXPECT_TRUE(peers.driver(1).Synchronize());
}

TEST(EmulatedDevicesDeathTest, KeepTheirMemoryApartWithoutPeerAccess) {
  Peers peers(2, Visiting::kAscending, /*access=*/false);
  EXPECT_DEATH(
      {
        peers.Launch(0);
        peers.Launch(1);
        (void)peers.driver(0).Synchronize();
      },
      "");
}

}  // namespace
}  // namespace fathom::testing
