// Replays the seeds of the fuzz targets: what they once found must stay found.
#include <gtest/gtest.h>

#include <string>

#include "fuzz/checkpoint_inputs.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

// Calls `use` with the content of every seed of a target; fails if there are none.
template <class Use>
void ForEachSeed(std::string_view target, const Use& use) {
  int n_seeds = 0;
  const std::filesystem::path folder = testing::ProjectPath("fuzz/seeds") / target;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    use(testing::ReadFile(entry.path()));
    ++n_seeds;
  }
  EXPECT_GT(n_seeds, 0) << folder;
}

TEST(FuzzSeeds, Safetensors) {
  ForEachSeed("safetensors", [](const std::string& seed) {
    fuzz::SafetensorsInput({reinterpret_cast<const std::uint8_t*>(seed.data()), seed.size()});
  });
}

TEST(FuzzSeeds, ModelConfig) {
  ForEachSeed("model_config", [](const std::string& seed) { fuzz::ModelConfigInput(seed); });
}

}  // namespace
}  // namespace fathom::checkpoint
