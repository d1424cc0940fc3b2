// The loops that show what the machine can do: that they do what they are timed for. How fast is
// for nobody to test.
#include "kernels/roofline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/pages.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/registry.h"

namespace fathom {
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
    const cpu::Kernels& kernels = cpu::TableOf(isa);
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
  }
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
      const Roofline one = (*probe)->Measure();
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
}  // namespace fathom
