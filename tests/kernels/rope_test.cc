#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tests/testing/shared_data.h"

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

// The tensors of a small safetensors file, by name.
class Tensors {
 public:
  explicit Tensors(std::string content) : content_(std::move(content)) {
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, content_.data(), sizeof header_bytes);
    header_ = nlohmann::json::parse(content_.substr(8, header_bytes), nullptr,
                                    /*allow_exceptions=*/false);
    data_ = 8 + header_bytes;
  }

  template <class T>
  std::vector<T> Get(const char* name) const {
    const auto begin = header_[name]["data_offsets"][0].get<std::size_t>();
    const auto end = header_[name]["data_offsets"][1].get<std::size_t>();
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), content_.data() + data_ + begin, end - begin);
    return values;
  }

 private:
  std::string content_;
  nlohmann::json header_;
  std::size_t data_ = 0;
};

// (cos or sin, position, k)
using Entry = std::tuple<std::string, std::int64_t, std::size_t>;

// The entries that differ from the official table; each by the last bit, else the test fails.
std::vector<Entry> Differences(const Tensors& official, const std::string& kind,
                               const std::vector<float>& frequencies) {
  const auto positions = official.Get<std::int32_t>("positions");
  const auto cos_table = official.Get<float>(("cos_" + kind).c_str());
  const auto sin_table = official.Get<float>(("sin_" + kind).c_str());
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
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::vector<float> cos(32), sin(32);
    RopeAngles(positions[i], frequencies, cos.data(), sin.data());
    for (std::size_t k = 0; k < 32; ++k) {
      compare("cos", positions[i], k, cos_table[32 * i + k], cos[k]);
      compare("sin", positions[i], k, sin_table[32 * i + k], sin[k]);
    }
  }
  return differences;
}

// A frequency off by one bit would change every entry of a large position. What is left are the
// official sines and cosines that are not correctly rounded.
TEST(Rope, GoldenTablesOfTheOfficialCode) {
  const auto path = testing::SharedData("oracle/rope.safetensors");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  const Tensors official(testing::ReadFile(*path));
  ASSERT_EQ(official.Get<std::int32_t>("positions").size(), 14u);
  const std::vector<Entry> window = {};
  EXPECT_EQ(Differences(official, "window", RopeFrequencies(64, 10000.0f, {})), window);
  const std::vector<Entry> compress = {};
  EXPECT_EQ(Differences(official, "compress", RopeFrequencies(64, 160000.0f, kYarn)), compress);
}

}  // namespace
}  // namespace fathom
