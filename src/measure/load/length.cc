#include "measure/load/length.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace fathom::load {
namespace {

template <class T>
std::optional<T> Parse(std::string_view text, T low, T high) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    return std::nullopt;
  }
  return value;
}

// Reads "A:B".
template <class A, class B>
auto ParsePair(std::string_view text, A low_a, A high_a, B low_b, B high_b) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  return std::pair(Parse<A>(text.substr(0, colon), low_a, high_a),
                   Parse<B>(text.substr(std::min(colon + 1, text.size())), low_b, high_b));
}

}  // namespace

std::int64_t Length::Draw(RandomStream& random) const {
  switch (kind) {
    case Kind::kFixed:
      return low;
    case Kind::kUniform:
      return random.Integer(low, high);
    case Kind::kLogNormal:
      break;
  }
  // The mean of exp(mu + sigma x) is exp(mu + sigma^2 / 2).
  const double drawn = std::exp(std::log(mean) - sigma * sigma / 2 + sigma * random.Normal());
  return static_cast<std::int64_t>(
      std::clamp(std::round(drawn), 1.0, static_cast<double>(kMaxTokens)));
}

Result<Length> ParseLength(std::string_view text) {
  constexpr std::string_view kUniform = "uniform:";
  constexpr std::string_view kLogNormal = "lognormal:";
  constexpr std::int64_t kOne = 1;
  if (text.starts_with(kUniform)) {
    const auto [low, high] =
        ParsePair(text.substr(kUniform.size()), kOne, kMaxTokens, kOne, kMaxTokens);
    if (low && high && *low <= *high) {
      return Length{.kind = Length::Kind::kUniform, .low = *low, .high = *high};
    }
  } else if (text.starts_with(kLogNormal)) {
    const auto [mean, sigma] =
        ParsePair(text.substr(kLogNormal.size()), 1.0, static_cast<double>(kMaxTokens), 0.0, 4.0);
    if (mean && sigma) {
      return Length{.kind = Length::Kind::kLogNormal, .mean = *mean, .sigma = *sigma};
    }
  } else if (const auto tokens = Parse(text, kOne, kMaxTokens)) {
    return Length{.low = *tokens};
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "expected a number of tokens, uniform:LOW:HIGH or lognormal:MEAN:SIGMA (sigma at "
      "most 4), found \"{}\"",
      text);
}

}  // namespace fathom::load
