// The loops that show what the machine can do: that they do what they are timed for. How fast is
// for nobody to test.
#include "kernels/roofline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/gpu/device/roofline.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/registry.h"
#include "tests/emulator/emulator_driver.h"

namespace fathom::kernels {
namespace {

TEST(Roofline, EveryPatternReadsEveryByteOnce) {
  std::vector<std::uint32_t> words(3 * cpu::kReadUnit / sizeof(std::uint32_t));
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(i * 2654435761u);
    sum += words[i];
  }
  for (const Isa isa : AvailableIsas()) {
    if (isa == Isa::kScalar) {
      continue;
    }
    const cpu::Kernels& kernels = cpu::KernelsFor(isa);
    for (const int streams : {1, 4}) {
      for (const std::int64_t distance : {0, 512, 4096}) {
        EXPECT_EQ(kernels.read_memory(words.data(), 3 * cpu::kReadUnit, {streams, distance}),
                  static_cast<std::int32_t>(sum))
            << Name(isa) << ", " << streams << " streams, distance " << distance;
      }
    }
    // Twelve chains of x / 2 + 1, of which the largest begins at 11, in every lane: their sum.
    const float once = kernels.multiply_adds(isa == Isa::kAvx2 ? 96 : 192);
    EXPECT_EQ(once, 12.0f + 0.5f * 66.0f) << Name(isa);
    // Chains that add products of zeros.
    EXPECT_EQ(kernels.operand_multiply_adds(2 * cpu::kMultiplyAddUnit), 66.0f) << Name(isa);
  }
}

// The kernels of GPUs, with vectors left over behind the last whole round of threads.
TEST(Roofline, KernelsReadCopyAndMultiplyEverythingOnce) {
  constexpr std::int64_t kVectors = 1003;
  constexpr std::int64_t kBlocks = 2;
  constexpr std::int64_t kThreads = 64;
  constexpr std::int64_t kBytes = kVectors * static_cast<std::int64_t>(sizeof(gpu::MemoryVector));
  const std::unique_ptr<GpuDriver> driver = MakeEmulatorDriver({});
  const std::unique_ptr<Buffer> from = driver->Allocate(kBytes, MemoryKind::kDevice).value();
  const std::unique_ptr<Buffer> to = driver->Allocate(kBytes, MemoryKind::kDevice).value();
  const std::unique_ptr<Buffer> sums =
      driver->Allocate(kBlocks * kThreads * 4, MemoryKind::kDevice).value();
  std::vector<std::uint32_t> words(static_cast<std::size_t>(kBytes) / 4);
  std::uint32_t expected = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(i * 2654435761u);
    expected += words[i];
  }
  driver->Upload(from->address(), std::as_bytes(std::span(words)));
  const auto launch = [&](GpuKernel kernel, const auto& arguments) {
    driver->Launch(kernel, {.x = kBlocks, .threads = kThreads},
                   std::as_bytes(std::span(&arguments, 1)));
  };
  auto* const memory = reinterpret_cast<gpu::MemoryVector*>(from->address());
  std::vector<std::uint32_t> found(kBlocks * kThreads);
  launch(GpuKernel::kReadMemory,
         gpu::ReadMemoryArguments{memory, kVectors,
                                  reinterpret_cast<std::uint32_t*>(sums->address())});
  driver->Download(std::as_writable_bytes(std::span(found)), sums->address());
  ASSERT_TRUE(driver->Synchronize());
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0u), expected);

  launch(GpuKernel::kCopyMemory,
         gpu::CopyMemoryArguments{memory, reinterpret_cast<gpu::MemoryVector*>(to->address()),
                                  kVectors});
  std::vector<std::uint32_t> copied(words.size());
  driver->Download(std::as_writable_bytes(std::span(copied)), to->address());

  // Sixteen chains of x / 2 + 1 that begin at 0 to 15, once.
  launch(GpuKernel::kMultiplyAdds,
         gpu::MultiplyAddsArguments{1, reinterpret_cast<float*>(sums->address())});
  std::vector<float> chains(found.size());
  driver->Download(std::as_writable_bytes(std::span(chains)), sums->address());
  ASSERT_TRUE(driver->Synchronize());
  EXPECT_EQ(copied, words);
  EXPECT_EQ(chains, std::vector<float>(found.size(), 16.0f + 0.5f * 120.0f));
}

TEST(Roofline, OfAGpuHasAllLimits) {
  const std::unique_ptr<GpuBackend> backend = GpuBackend::Make(MakeEmulatorDriver({})).value();
  const std::unique_ptr<RooflineProbe> probe =
      backend->MakeRooflineProbe({.buffer_bytes = 1'000'001}).value();
  EXPECT_EQ(probe->page_bytes(), 0);
  const Roofline measured = probe->Measure().value();
  for (const double limit :
       {measured.read_gb_s, measured.fma_gflop_s, measured.copy_gb_s, measured.launch_us}) {
    EXPECT_GT(limit, 0);
  }
  EXPECT_EQ(probe->Median().copy_gb_s, measured.copy_gb_s);
  EXPECT_EQ(probe->Best().launch_us, measured.launch_us);
  const Result<std::unique_ptr<RooflineProbe>> too_large =
      backend->MakeRooflineProbe({.buffer_bytes = std::int64_t{1} << 60});
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::kOutOfMemory);
}

TEST(Roofline, BestAndMedianAreOfAllMeasurements) {
  for (const Isa isa : AvailableIsas()) {
    const std::unique_ptr<Backend> backend = MakeCpuBackend(isa, 2).value();
    const Result<std::unique_ptr<RooflineProbe>> probe =
        backend->MakeRooflineProbe({.buffer_bytes = 1'000'001});
    ASSERT_TRUE(probe) << probe.error().message;
    EXPECT_EQ((*probe)->n_threads(), isa == Isa::kScalar ? 1 : 2);
    double best = 0;
    for (int i = 1; i <= 3; ++i) {
      const Roofline one = (*probe)->Measure().value();
      EXPECT_GT(one.read_gb_s, 0);
      EXPECT_GT(one.fma_gflop_s, 0);
      best = std::max(best, one.read_gb_s);
      EXPECT_EQ((*probe)->n_measurements(), i);
    }
    EXPECT_EQ((*probe)->Best().read_gb_s, best);
    EXPECT_LE((*probe)->Median().read_gb_s, best);
    EXPECT_LE((*probe)->Median().fma_gflop_s, (*probe)->Best().fma_gflop_s);
  }
}

TEST(Roofline, SaysWhichPagesTheKernelGave) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Isa::kScalar, 1).value();
  RooflineOptions options = {.buffer_bytes = 2 * kHugePageBytes};
  EXPECT_EQ(backend->MakeRooflineProbe(options).value()->page_bytes(), ::sysconf(_SC_PAGESIZE));
  options.huge_pages = true;
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  if (setting.empty() || setting.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "the system gives no huge pages";
  }
  EXPECT_EQ(backend->MakeRooflineProbe(options).value()->page_bytes(), kHugePageBytes);
}

TEST(Roofline, MemoryThatIsNotThereIsAnError) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Isa::kScalar, 1).value();
  const Result<std::unique_ptr<RooflineProbe>> probe =
      backend->MakeRooflineProbe({.buffer_bytes = std::int64_t{1} << 60});
  ASSERT_FALSE(probe);
  EXPECT_EQ(probe.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace fathom::kernels
