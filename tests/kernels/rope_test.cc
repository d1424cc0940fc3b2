#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/testing/shared_data.h"

namespace fathom::kernels {
namespace {

constexpr YarnScaling kYarn = {
    .factor = 16.0f, .beta_fast = 32.0f, .beta_slow = 1.0f, .original_length = 65536};

// The values listed in the specification, to its 9 digits. (Its last digits come from a higher
// precision than the official fp32 table, which the golden test below compares to the bit.)
TEST(Rope, FrequenciesOfTheSpecification) {
  const std::vector<float> window = RopeFrequencies(64, 10000.0f, {});
  ASSERT_EQ(window.size(), 32u);
  EXPECT_EQ(window[0], 1.0f);
  EXPECT_FLOAT_EQ(window[1], 0.749894209f);
  EXPECT_FLOAT_EQ(window[31], 1.33352143e-4f);
  const std::vector<float> compress = RopeFrequencies(64, 160000.0f, kYarn);
  const std::vector<std::pair<std::size_t, float>> expected = {{0, 1.0f},
                                                               {1, 0.687656022f},
                                                               {15, 0.00363553858f},
                                                               {16, 0.002265625f},
                                                               {20, 2.96977778e-4f},
                                                               {24, 1.953125e-5f},
                                                               {25, 5.37231267e-6f},
                                                               {31, 5.68052904e-7f}};
  for (const auto& [k, value] : expected) {
    EXPECT_FLOAT_EQ(compress[k], value) << k;
  }
}

TEST(Rope, AnglesAreCorrectlyRoundedOverTheWholeContext) {
  const std::vector<float> frequencies = RopeFrequencies(64, 10000.0f, {});
  std::vector<float> cos(32), sin(32);
  for (std::int64_t position = 0; position < 1'048'576; position += 4099) {
    RopeAngles(position, frequencies, cos.data(), sin.data());
    for (std::size_t k = 0; k < 32; ++k) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequencies[k]);
      EXPECT_EQ(cos[k], static_cast<float>(std::cos(angle))) << position << " " << k;
      EXPECT_EQ(sin[k], static_cast<float>(std::sin(angle))) << position << " " << k;
    }
  }
}

// (cos or sin, position, k)
using Entry = std::tuple<std::string, std::int64_t, std::size_t>;

// The entries that differ from the official table; each by the last bit, else the test fails.
std::vector<Entry> Differences(const checkpoint::Checkpoint& official, const std::string& kind,
                               const std::vector<float>& frequencies) {
  const TensorView& positions = *official.Find("positions");
  const auto cos_table = official.Find("cos_" + kind)->As<float>();
  const auto sin_table = official.Find("sin_" + kind)->As<float>();
  std::vector<Entry> differences;
  const auto compare = [&](const char* name, std::int64_t position, std::size_t k,
                           float official_value, float ours) {
    if (official_value == ours) return;
    differences.emplace_back(name, position, k);
    EXPECT_EQ(
        std::abs(std::bit_cast<std::int32_t>(ours) - std::bit_cast<std::int32_t>(official_value)),
        1)
        << kind << " " << name << " " << position << " " << k;
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(positions.shape[0]); ++i) {
    const std::int64_t position = positions.As<std::int32_t>()[i];
    std::vector<float> cos(32), sin(32);
    RopeAngles(position, frequencies, cos.data(), sin.data());
    for (std::size_t k = 0; k < 32; ++k) {
      compare("cos", position, k, cos_table[32 * i + k], cos[k]);
      compare("sin", position, k, sin_table[32 * i + k], sin[k]);
    }
  }
  return differences;
}

// A frequency off by one bit would change every entry of a large position. What is left are the
// official sines and cosines that are not correctly rounded.
TEST(Rope, GoldenTablesOfTheOfficialCode) {
  const auto path = testing::SharedData("oracle/rope.safetensors");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  const auto official = checkpoint::Checkpoint::Open(*path);
  ASSERT_TRUE(official) << official.error().message;
  ASSERT_EQ(official->Find("positions")->shape[0], 14);
  const std::vector<Entry> window = {{"cos", 127, 14},
                                     {"cos", 131071, 31},
                                     {"cos", 1000000, 13},
                                     {"cos", 1048575, 16},
                                     {"cos", 1048575, 22}};
  EXPECT_EQ(Differences(*official, "window", RopeFrequencies(64, 10000.0f, {})), window);
  const std::vector<Entry> compress = {
      {"cos", 3, 1},       {"sin", 3, 4},       {"sin", 4095, 17},    {"sin", 4095, 21},
      {"cos", 65535, 19},  {"cos", 524288, 24}, {"sin", 1000000, 22}, {"sin", 1048575, 2},
      {"cos", 1048575, 5}, {"cos", 1048575, 29}};
  EXPECT_EQ(Differences(*official, "compress", RopeFrequencies(64, 160000.0f, kYarn)), compress);
}

}  // namespace
}  // namespace fathom::kernels
