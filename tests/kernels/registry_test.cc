#include "kernels/registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/isa.h"

namespace fathom::kernels {
namespace {

using ::testing::HasSubstr;

TEST(Registry, NamesOfInstructionSets) {
  for (const Isa isa : kAllIsas) {
    const Result<Isa> parsed = ParseIsa(Name(isa));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, isa);
  }
  for (const char* text : {"", "AVX2", "avx", "sse"}) {
    const Result<Isa> parsed = ParseIsa(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("scalar, avx2, avx512, avx512_bf16 or amx"));
  }
}

TEST(Registry, MakesEveryBackendOfTheMachine) {
  for (const Isa isa : AvailableIsas()) {
    const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(isa, 2);
    ASSERT_TRUE(backend) << backend.error().message;
    EXPECT_EQ((*backend)->Name(),
              isa == Isa::kScalar ? "reference" : fmt::format("cpu {}, 2 threads", Name(isa)));
  }
}

TEST(Registry, MakesBackendsByName) {
  const std::unique_ptr<Backend> cpu = MakeBackend("cpu", {.cpu_isa = Isa::kScalar}).value();
  EXPECT_EQ(cpu->Name(), "reference");
  EXPECT_EQ(MakeBackend("auto", {.cpu_isa = Isa::kScalar}).value()->Name(), "reference");
  EXPECT_EQ(MakeBackend("cpu", {.n_threads = 0}).error().code, ErrorCode::kInvalidArgument);
  const Result<std::unique_ptr<Backend>> unknown = MakeBackend("cpus", {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.error().message,
            "backend \"cpus\" is not known; expected one of: auto, cpu, cuda, hip");
}

TEST(Registry, TakesTheFastestWithoutAChoice) {
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(std::nullopt, 1);
  ASSERT_TRUE(backend);
  const Isa fastest = PreferredIsa();
  EXPECT_EQ((*backend)->Name(),
            fastest == Isa::kScalar ? "reference" : fmt::format("cpu {}, 1 thread", Name(fastest)));
}

TEST(Registry, PrefersTheWidestUnlessPairsOfBf16AreSlower) {
  const Isa widest = AvailableIsas().back();
  const Isa preferred = PreferredIsa();
  EXPECT_EQ(preferred, PreferredIsa());
  if (widest == Isa::kAvx512Bf16) {
    EXPECT_TRUE(preferred == widest || preferred == Isa::kAvx512) << Name(preferred);
  } else {
    EXPECT_EQ(preferred, widest);
  }
}

TEST(Registry, RefusesWhatTheMachineDoesNotHave) {
  const std::vector<Isa> available = AvailableIsas();
  for (const Isa isa : kAllIsas) {
    if (std::find(available.begin(), available.end(), isa) == available.end()) {
      const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(isa, 1);
      ASSERT_FALSE(backend);
      EXPECT_THAT(backend.error().message, HasSubstr("it has: scalar"));
    }
  }
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(std::nullopt, 0);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace fathom::kernels
