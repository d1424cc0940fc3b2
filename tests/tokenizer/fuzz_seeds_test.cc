// Replays the seeds of fuzz/tokenizer_fuzz.cc, and every truncation of the smallest valid one.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fathom::tokenizer {
namespace {

int Replay(std::string_view input) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

TEST(TokenizerFuzzSeeds, AllReplay) {
  std::size_t n_seeds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectPath("fuzz/seeds/tokenizer"))) {
    EXPECT_EQ(Replay(testing::ReadFile(entry.path())), 0) << entry.path();
    ++n_seeds;
  }
  EXPECT_GE(n_seeds, 8u);
}

TEST(TokenizerFuzzSeeds, EveryTruncationReplays) {
  const std::string json = testing::SmallTokenizerJson();
  for (std::size_t n_bytes = 0; n_bytes <= json.size(); n_bytes += 7) {
    EXPECT_EQ(Replay(std::string_view(json).substr(0, n_bytes)), 0);
  }
}

}  // namespace
}  // namespace fathom::tokenizer
