#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fathom {
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

}  // namespace
}  // namespace fathom
