#include "experts/exchange/expert_message.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/reference/quantize.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::experts {
namespace {

using testing::Random;

struct Codes {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
};

Codes Pack(const std::vector<Bf16>& x) {
  Codes packed = {std::vector<std::uint8_t>(x.size()), std::vector<std::uint8_t>(x.size() / 128)};
  PackToken(x, packed.codes.data(), packed.scales.data());
  return packed;
}

std::vector<Bf16> Unpack(const Codes& packed) {
  std::vector<Bf16> x(packed.codes.size());
  UnpackToken(packed.codes.data(), packed.scales.data(), x);
  return x;
}

// A block whose largest magnitude is `largest`, with numbers down to where codes end.
std::vector<Bf16> Block(float largest, Random& random) {
  std::vector<Bf16> x;
  for (int i = 0; i < 128; ++i) {
    x.push_back(ToBf16(largest * random.Unit() * std::ldexp(1.0f, -random.Below(20))));
  }
  x[static_cast<std::size_t>(random.Below(128))] = ToBf16(largest);
  return x;
}

TEST(ExpertMessageTest, TheNumbersOfAProductComeOutAndStay) {
  Random random(1);
  int n_other_scales = 0;
  for (int exponent = -60; exponent < 60; ++exponent) {
    // 1.75 * 2^8 = 448 is the largest code; just above 2^n 1.75 / 2 the largest rounds to 224.
    for (const float part : {1.0f, 1.25f, 1.74f, 1.75f, 1.7578125f, 1.8f, 1.99f}) {
      const std::vector<Bf16> x = Block(std::ldexp(part, exponent), random);
      std::vector<std::uint8_t> codes(128);
      const float scale = QuantizeE4m3(x.data(), 128, codes.data());
      const Codes packed = Pack(x);
      EXPECT_EQ(packed.codes, codes);
      EXPECT_EQ(E8m0ToFloat(packed.scales[0]), scale);
      // Quantises the received tokens as the product does.
      const std::vector<Bf16> arrived = Unpack(packed);
      std::vector<std::uint8_t> again(128);
      const float scale_again = QuantizeE4m3(arrived.data(), 128, again.data());
      for (std::size_t i = 0; i < 128; ++i) {
        ASSERT_EQ(ToFloat(arrived[i]), E4m3ToFloat(codes[i]) * scale);
        ASSERT_EQ(E4m3ToFloat(again[i]) * scale_again, E4m3ToFloat(codes[i]) * scale);
      }
      EXPECT_TRUE(scale_again == scale || scale_again == scale / 2);
      n_other_scales += scale_again != scale ? 1 : 0;
      EXPECT_EQ(Unpack(Pack(arrived)), arrived);
    }
  }
  EXPECT_GT(n_other_scales, 0) << "the case that the header argues about";
}

TEST(ExpertMessageTest, ZerosAndNanStayWhatTheyAre) {
  std::vector<Bf16> x(256, ToBf16(0.0f));
  x[3] = ToBf16(-0.0f);
  x[130] = ToBf16(std::numeric_limits<float>::quiet_NaN());
  x[131] = ToBf16(1.0f);
  const std::vector<Bf16> arrived = Unpack(Pack(x));
  EXPECT_EQ(arrived[3], x[3]);
  EXPECT_EQ(arrived[131], x[131]);
  EXPECT_TRUE(std::isnan(ToFloat(arrived[130])));
  for (const std::size_t i : {0u, 1u, 127u, 128u, 255u}) {
    EXPECT_EQ(arrived[i], x[i]);
  }
}

TEST(ExpertMessageTest, PartsOfAMessageLieBehindEachOther) {
  const DispatchCounts counts = {.n_tokens = 3, .n_pairs = 5};
  std::vector<std::uint32_t> memory(1000);
  const DispatchView view = ViewDispatch(reinterpret_cast<std::byte*>(memory.data()), counts, 256);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(memory.data());
  EXPECT_EQ(view.pairs.size(), 5u);
  EXPECT_EQ(view.codes - begin, 60);
  EXPECT_EQ(view.scales - begin, 60 + 3 * 256);
  EXPECT_EQ(DispatchBytes(counts, 256), 60 + 3 * (256 + 2));
}

}  // namespace
}  // namespace fathom::experts
