#include "measure/slice/random_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

#include "base/check.h"
#include "base/float_types.h"

namespace fathom::measure {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of x decides every bit.
constexpr std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The state of SplitMix64 advances by a constant, so any word i of a stream can be computed
// directly.
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
constexpr std::uint64_t Word(std::uint64_t stream, std::uint64_t i) {
  return Mix(stream + (i + 1) * kStep);
}

constexpr std::uint64_t MakeStream(std::uint64_t seed, std::string_view name) {
  std::uint64_t stream = Mix(seed + kStep);
  for (const char letter : name) {
    stream = Mix(stream ^ static_cast<std::uint8_t>(letter));
  }
  return stream;
}

constexpr std::uint32_t Sixteen(std::uint64_t word, int i) {
  return static_cast<std::uint32_t>(word >> (16 * i)) & 0xFFFFu;
}

struct CodeFormat {
  float (*to_float)(std::uint8_t code);
  std::uint8_t sign_bit;
  std::uint8_t largest;  // code of the largest positive value
  double deviation;
};

// Codes from which a uniform draw is a normal value rounded to the format.
template <std::size_t kSize>
std::array<std::uint8_t, kSize> SpreadCodes(const CodeFormat& format) {
  constexpr std::size_t kHalf = kSize / 2;
  std::array<std::uint8_t, kSize> codes;
  std::uint8_t code = 0;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(kHalf);
    const auto rounds_up = [&] {
      const double border =
          (format.to_float(code) + format.to_float(static_cast<std::uint8_t>(code + 1))) / 2;
      return std::erf(border / (format.deviation * std::numbers::sqrt2)) < share;
    };
    while (code < format.largest && rounds_up()) {
      ++code;
    }
    codes[i] = code;
    codes[kHalf + i] = static_cast<std::uint8_t>(code | format.sign_bit);
  }
  return codes;
}

constexpr CodeFormat kE2m1 = {
    .to_float = E2m1ToFloat, .sign_bit = 0x08, .largest = 0x07, .deviation = kE2m1Deviation};
constexpr CodeFormat kE4m3 = {
    .to_float = E4m3ToFloat, .sign_bit = 0x80, .largest = 0x7E, .deviation = kE4m3Deviation};

// Two neighbouring powers of two as E8M0 codes, and the frequency of the upper one.
struct PowerMix {
  std::uint32_t lower_code;
  std::uint32_t n_upper;  // out of 65,536

  // p * (2u)^2 + (1 - p) * u^2 = rms^2, for u = 2^floor(log2 rms), so 0 <= p < 1.
  explicit PowerMix(double rms) {
    constexpr int kE8m0Bias = 127;
    const int exponent = std::ilogb(rms);
    const double above = std::ldexp(rms, -exponent);
    lower_code = static_cast<std::uint32_t>(exponent + kE8m0Bias);
    n_upper = static_cast<std::uint32_t>(65'536 * (above * above - 1) / 3);
  }

  std::uint32_t Draw(std::uint32_t sixteen) const { return lower_code + (sixteen < n_upper); }
};

// Nearly normal: the sum of four uniform values. At most 3.5 deviations from the mean.
float Normal(std::uint64_t word, float mean, float deviation) {
  constexpr float kMeanOfSum = 2 * 65'535.0f;
  constexpr float kInverseDeviationOfSum = 1 / 37'837.2f;  // sqrt(4 * 65536^2 / 12)
  const std::uint32_t sum =
      Sixteen(word, 0) + Sixteen(word, 1) + Sixteen(word, 2) + Sixteen(word, 3);
  return mean + deviation * ((static_cast<float>(sum) - kMeanOfSum) * kInverseDeviationOfSum);
}

using FourBytes = std::array<std::uint8_t, 4>;

template <class MakeOne>
FourBytes MakeFour(const MakeOne& make_one) {
  return {static_cast<std::uint8_t>(make_one(0)), static_cast<std::uint8_t>(make_one(1)),
          static_cast<std::uint8_t>(make_one(2)), static_cast<std::uint8_t>(make_one(3))};
}

// Makes one T from every word of the stream.
template <class T, class Make>
void FillWords(std::uint64_t stream, std::int64_t first_byte, std::span<std::byte> out,
               const Make& make) {
  auto i = static_cast<std::uint64_t>(first_byte) / sizeof(T);
  for (; out.size() >= sizeof(T); out = out.subspan(sizeof(T))) {
    const T made = make(Word(stream, i++));
    std::memcpy(out.data(), &made, sizeof(T));
  }
  if (!out.empty()) {
    const T made = make(Word(stream, i));
    std::memcpy(out.data(), &made, out.size());
  }
}

// The k ids of a token have equal distances, so that they differ. Halves of ids are made
// separately, because a part may begin with a half.
void FillExperts(std::uint64_t stream, const SliceTensor& tensor, std::int64_t first_byte,
                 std::span<std::byte> out) {
  const auto k = static_cast<std::uint64_t>(tensor.shape[1]);
  const auto n_experts = static_cast<std::uint64_t>(tensor.n_experts);
  auto half = static_cast<std::uint64_t>(first_byte) / sizeof(std::uint32_t);
  for (; !out.empty(); ++half) {
    const std::uint64_t row = half / 2 / k;
    const std::uint64_t column = half / 2 % k;
    const std::uint64_t id = (Word(stream, row) % n_experts + column * (n_experts / k)) % n_experts;
    const std::uint32_t value = half % 2 == 0 ? static_cast<std::uint32_t>(id) : 0;
    const std::size_t n = std::min(out.size(), sizeof(value));
    std::memcpy(out.data(), &value, n);
    out = out.subspan(n);
  }
}

}  // namespace

RandomValues::RandomValues(std::uint64_t seed)
    : seed_(seed), e4m3_codes_(SpreadCodes<kSixteenBits>(kE4m3)) {
  const std::array<std::uint8_t, 256> e2m1_codes = SpreadCodes<256>(kE2m1);
  for (std::size_t i = 0; i < kSixteenBits; ++i) {
    e2m1_pairs_[i] = static_cast<std::uint8_t>(e2m1_codes[i & 0xFF] | (e2m1_codes[i >> 8] << 4));
  }
}

void RandomValues::Fill(const SliceTensor& tensor, std::int64_t first_byte,
                        std::span<std::byte> out) const {
  const std::uint64_t stream = MakeStream(seed_, tensor.name);
  const auto mean = static_cast<float>(tensor.mean);
  const auto deviation = static_cast<float>(tensor.deviation);
  switch (tensor.dtype) {
    case DType::kF32:
      FillWords<float>(stream, first_byte, out,
                       [&](std::uint64_t word) { return Normal(word, mean, deviation); });
      return;
    case DType::kBF16:
      FillWords<Bf16>(stream, first_byte, out,
                      [&](std::uint64_t word) { return ToBf16(Normal(word, mean, deviation)); });
      return;
    case DType::kF8E4M3:
      FillWords<FourBytes>(stream, first_byte, out, [&](std::uint64_t word) {
        return MakeFour([&](int i) { return e4m3_codes_[Sixteen(word, i)]; });
      });
      return;
    case DType::kI8:
      FillWords<FourBytes>(stream, first_byte, out, [&](std::uint64_t word) {
        return MakeFour([&](int i) { return e2m1_pairs_[Sixteen(word, i)]; });
      });
      return;
    case DType::kI64:
      FillExperts(stream, tensor, first_byte, out);
      return;
    case DType::kF8E8M0: {
      const PowerMix mix(tensor.deviation);
      FillWords<FourBytes>(stream, first_byte, out, [&](std::uint64_t word) {
        return MakeFour([&](int i) { return mix.Draw(Sixteen(word, i)); });
      });
      return;
    }
    default:
      Check(false, "a slice has tensors of the types of tensors.h only");
  }
}

}  // namespace fathom::measure
