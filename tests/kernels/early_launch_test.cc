// Kernels that start before earlier ones have ended: the emulator runs the right ones, and names
// what wrong ones do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/emulator/emulator_driver.h"
#include "tests/kernels/device/early_kernels.h"
#include "tests/kernels/hopper_runs.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kEarlyBlocks = 2 * kEarlyCluster;
constexpr int kChainNumbers = kEarlyBlocks * kEarlyThreads;
using Numbers = std::vector<std::int32_t>;

Numbers CountedFrom(int first) {
  Numbers numbers(kChainNumbers);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// A device with kernels in a chain, each of which has its own results.
class Chain {
 public:
  struct Step {
    EarlyOrder order = EarlyOrder::kWaits;
    const std::int32_t* in = nullptr;
    const std::int32_t* early = nullptr;   // null: constants
    const std::int32_t* copied = nullptr;  // null: constants
    std::int32_t* out = nullptr;           // null: new memory of this device
    bool starts_early = true;
    bool in_clusters = false;
  };

  explicit Chain(std::unique_ptr<GpuDriver> driver, Numbers constants = CountedFrom(1))
      : driver_(std::move(driver)) {
    constants_ = Allocate();
    Upload(constants_, constants);
  }
  // A neighbour of what was allocated before.
  std::int32_t* Allocate() {
    memory_.push_back(*driver_->Allocate(kChainNumbers * 4, MemoryKind::kDevice));
    return reinterpret_cast<std::int32_t*>(memory_.back()->address());
  }
  void Upload(std::int32_t* to, const Numbers& from) {
    driver_->Upload(to, std::as_bytes(std::span(from)));
  }
  // Returns the results.
  std::int32_t* Launch(std::string_view name, const Step& step) {
    const auto or_constants = [&](const std::int32_t* x) { return x != nullptr ? x : constants_; };
    const EarlyStepArguments arguments = {.order = step.order,
                                          .in = or_constants(step.in),
                                          .early = or_constants(step.early),
                                          .copied = or_constants(step.copied),
                                          .out = step.out != nullptr ? step.out : Allocate(),
                                          .flag = reinterpret_cast<std::uint32_t*>(Allocate())};
    LaunchEmulated(
        *driver_,
        {.name = name,
         .kernel =
             step.in_clusters ? fathom_emulated_EarlyClusterStep() : fathom_emulated_EarlyStep(),
         .grid = {.x = kEarlyBlocks, .threads = kEarlyThreads, .shared_bytes = kEarlyStepShared},
         .arguments = std::as_bytes(std::span(&arguments, 1)),
         .starts_early = step.starts_early});
    return arguments.out;
  }
  // Launches a kernel that waits for nothing.
  std::int32_t* LaunchFirst() {
    return Launch("First", {.order = EarlyOrder::kNoWait, .starts_early = false});
  }
  // The error of all launches, or nothing.
  std::string Error() {
    const Status status = driver_->Synchronize();
    return status ? "" : status.error().message;
  }
  Numbers Download(const std::int32_t* from) {
    Numbers numbers(kChainNumbers);
    driver_->Download(std::as_writable_bytes(std::span(numbers)), from);
    EXPECT_EQ(Error(), "");
    return numbers;
  }

 private:
  std::unique_ptr<GpuDriver> driver_;
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::int32_t* constants_ = nullptr;
};

Numbers ExpectedStep(const Numbers& in, const Numbers& early, const Numbers& copied) {
  Numbers out(kChainNumbers);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = 3 * in[out.size() - 1 - i] + early[i] + copied[i];
  }
  return out;
}

// Every order of threads and blocks, both moments of copies, and both of the work.
class EarlyLaunch
    : public ::testing::TestWithParam<std::tuple<emulator::Visiting, emulator::Asynchrony, bool>> {
 protected:
  Chain MakeChain(Numbers constants = CountedFrom(1)) const {
    const auto [visiting, asynchrony, when_awaited] = GetParam();
    return Chain(MakeEmulatorDriver({.visiting = visiting,
                                     .seed = 5,
                                     .asynchrony = asynchrony,
                                     .runs_when_awaited = when_awaited,
                                     .memory_bytes = 1 << 20}),
                 std::move(constants));
  }
  // The error of a kernel that follows the one of LaunchFirst.
  std::string ErrorOfSecond(EarlyOrder order, bool starts_early = true) const {
    Chain chain = MakeChain();
    const std::int32_t* const first = chain.LaunchFirst();
    chain.Launch("Second", {.order = order, .in = first, .starts_early = starts_early});
    return chain.Error();
  }
};
INSTANTIATE_TEST_SUITE_P(Runs, EarlyLaunch,
                         ::testing::Combine(::testing::Values(emulator::Visiting::kAscending,
                                                              emulator::Visiting::kDescending,
                                                              emulator::Visiting::kRandom),
                                            ::testing::Values(emulator::Asynchrony::kEarliest,
                                                              emulator::Asynchrony::kLatest),
                                            ::testing::Bool()));

// Constants are read and copied before the waits, from between the results in memory.
TEST_P(EarlyLaunch, RunsARightChain) {
  Chain chain = MakeChain();
  const Numbers constants = CountedFrom(1);
  const std::int32_t* found = chain.LaunchFirst();
  Numbers expected = ExpectedStep(constants, constants, constants);
  for (const EarlyOrder order : {EarlyOrder::kStartsNext, EarlyOrder::kStartsNext,
                                 EarlyOrder::kOneThreadWaits, EarlyOrder::kWaits}) {
    for (const bool in_clusters : {false, true}) {
      found = chain.Launch("Next", {.order = order, .in = found, .in_clusters = in_clusters});
      expected = ExpectedStep(expected, constants, constants);
    }
  }
  EXPECT_EQ(chain.Download(found), expected);
}

TEST_P(EarlyLaunch, TellsWrongKernelsApart) {
  Chain chain = MakeChain();
  const std::int32_t* const first = chain.LaunchFirst();
  chain.Launch("Second", {.in = first, .early = first});
  EXPECT_THAT(
      chain.Error(),
      AllOf(StartsWith("kernel Second, block ("),
            HasSubstr("): expected WaitForEarlierKernels first, found: thread "),
            HasSubstr(" reads byte "),
            HasSubstr(" of an allocation of 1536 bytes, in a page that kernel First writes")));
  EXPECT_THAT(ErrorOfSecond(EarlyOrder::kWritesFirst),
              AllOf(StartsWith("kernel Second, block ("),
                    HasSubstr("): expected WaitForEarlierKernels first, found: thread "),
                    HasSubstr(" writes byte "), HasSubstr(" of an allocation of 1536 bytes")));
  EXPECT_THAT(
      ErrorOfSecond(EarlyOrder::kNeverWaits),
      AllOf(StartsWith("kernel Second, block ("),
            HasSubstr("): expected WaitForEarlierKernels in every block of a kernel that starts "
                      "early, found one that calls StartDependentKernels (hopper_early.cu:"),
            HasSubstr(") and ends without waiting")));
  EXPECT_THAT(ErrorOfSecond(EarlyOrder::kWaits, /*starts_early=*/false),
              AllOf(StartsWith("kernel Second, block ("),
                    HasSubstr(" calls WaitForEarlierKernels (hopper_early.cu:"),
                    HasSubstr("): expected a kernel that is launched to start early, found one "
                              "that is launched to start after all earlier ones")));
}

TEST_P(EarlyLaunch, FindsBlocksAndThreadsThatDoNotWait) {
  EXPECT_THAT(ErrorOfSecond(EarlyOrder::kNeitherStartsWaits),
              HasSubstr("in every block of a kernel that starts early, found one that ends without "
                        "waiting"));
  for (const EarlyOrder order : {EarlyOrder::kOneBlockWaits, EarlyOrder::kOneBlockTells}) {
    EXPECT_THAT(ErrorOfSecond(order),
                AllOf(HasSubstr("in every block of a kernel"), HasSubstr("ends without waiting")));
  }
  EXPECT_THAT(ErrorOfSecond(EarlyOrder::kOneThreadAlone),
              AllOf(HasSubstr("expected WaitForEarlierKernels first, found: thread "),
                    HasSubstr("in a page that kernel First writes")));
}

// Zeros that First writes over zeros are its results, too.
TEST_P(EarlyLaunch, FindsEarlyReadsOfUnchangedNumbers) {
  Chain chain = MakeChain(Numbers(kChainNumbers));
  const std::int32_t* const first = chain.LaunchFirst();
  chain.Launch("Second", {.in = first, .early = first});
  EXPECT_THAT(chain.Error(), HasSubstr("in a page that kernel First writes"));
}

TEST_P(EarlyLaunch, FindsEarlyCopies) {
  Chain chain = MakeChain();
  const std::int32_t* const first = chain.LaunchFirst();
  chain.Launch("Second", {.in = first, .copied = first});
  EXPECT_THAT(chain.Error(), AllOf(HasSubstr("found: thread 0 reads byte "),
                                   HasSubstr("in a page that kernel First writes")));
}

TEST_P(EarlyLaunch, FindsWritesToWhatEarlierKernelsWrite) {
  Chain chain = MakeChain();
  std::int32_t* const first = chain.LaunchFirst();
  chain.Launch("Second", {.order = EarlyOrder::kWritesFirst, .out = first});
  EXPECT_THAT(chain.Error(),
              AllOf(HasSubstr(" writes byte "), HasSubstr("in a page that kernel First writes")));
}

// The third kernel may begin while the first one runs only if the second one starts it before it
// has waited for the first one.
TEST_P(EarlyLaunch, KnowsWhichKernelsMayStillRun) {
  for (const EarlyOrder order : {EarlyOrder::kStartsNext, EarlyOrder::kWaits}) {
    Chain chain = MakeChain();
    const std::int32_t* const first = chain.LaunchFirst();
    const std::int32_t* const second = chain.Launch("Second", {.order = order, .in = first});
    const std::int32_t* const third = chain.Launch("Third", {.in = second, .early = first});
    if (order == EarlyOrder::kStartsNext) {
      EXPECT_THAT(chain.Error(), AllOf(StartsWith("kernel Third, block ("),
                                       HasSubstr("in a page that kernel First writes")));
      continue;
    }
    const Numbers constants = CountedFrom(1);
    const Numbers result = ExpectedStep(constants, constants, constants);
    EXPECT_EQ(chain.Download(third),
              ExpectedStep(ExpectedStep(result, constants, constants), result, constants));
  }
}

// Kernels have ended once the host has awaited them, or a copy came after them.
TEST_P(EarlyLaunch, KnowsWhichKernelsHaveEnded) {
  const Numbers constants = CountedFrom(1);
  const Numbers one = ExpectedStep(constants, constants, constants);
  const Numbers two = ExpectedStep(one, constants, constants);
  for (const bool awaits : {false, true}) {
    Chain chain = MakeChain();
    const std::int32_t* const first = chain.LaunchFirst();
    const std::int32_t* const second =
        chain.Launch("Second", {.order = EarlyOrder::kStartsNext, .in = first});
    if (awaits) {
      EXPECT_EQ(chain.Error(), "");
    } else {
      chain.Upload(chain.Allocate(), constants);
    }
    const std::int32_t* const third =
        chain.Launch("Third", {.in = second, .early = first, .copied = second});
    EXPECT_EQ(chain.Download(third), ExpectedStep(two, one, two));
  }
}

// A kernel that is launched in order begins after all earlier ones.
TEST_P(EarlyLaunch, MixesWithLaunchesInOrder) {
  Chain chain = MakeChain();
  const std::int32_t* const first = chain.LaunchFirst();
  const std::int32_t* const second =
      chain.Launch("Second", {.order = EarlyOrder::kStartsNext, .in = first});
  const std::int32_t* const third = chain.Launch(
      "Third", {.order = EarlyOrder::kNoWait, .in = first, .early = second, .starts_early = false});
  const std::int32_t* const fourth = chain.Launch("Fourth", {.in = third, .early = second});
  const Numbers constants = CountedFrom(1);
  const Numbers one = ExpectedStep(constants, constants, constants);
  const Numbers two = ExpectedStep(one, constants, constants);
  EXPECT_EQ(chain.Download(fourth),
            ExpectedStep(ExpectedStep(one, two, constants), two, constants));
}

std::pair<Chain, Chain> TwoChains() {
  std::vector<std::unique_ptr<GpuDriver>> drivers =
      MakeEmulatorDrivers({.memory_bytes = 1 << 20}, 2, /*peer_access=*/true);
  return {Chain(std::move(drivers[0])), Chain(std::move(drivers[1]))};
}

// The next kernel is not known yet when the first one runs beside work of another device.
TEST(EarlyLaunchOfDevices, FindsEarlyReadsOfWhatRanWithoutBeingAwaited) {
  auto [chain, other] = TwoChains();
  const std::int32_t* const first = chain.LaunchFirst();
  other.LaunchFirst();
  other.LaunchFirst();
  EXPECT_EQ(other.Error(), "");
  chain.Launch("Second", {.in = first, .early = first});
  EXPECT_THAT(chain.Error(), HasSubstr("in a page that kernel First writes"));
}

// A kernel may not write another device's memory before the wait, either.
TEST(EarlyLaunchOfDevices, FindsEarlyWritesToAnotherDevice) {
  auto [chain, other] = TwoChains();
  const std::int32_t* const first = chain.LaunchFirst();
  chain.Launch("Second", {.order = EarlyOrder::kWritesFirst, .in = first, .out = other.Allocate()});
  EXPECT_THAT(chain.Error(),
              AllOf(StartsWith("kernel Second, block ("), HasSubstr(" writes byte ")));
  EXPECT_EQ(other.Error(), "");
}

}  // namespace
}  // namespace fathom::testing
