#include "measure/load/load_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/parse_text.h"

namespace fathom::measure::load {
namespace {

// Common words, which are one token in the tokenizers of most models.
constexpr std::string_view kWords[] = {
    "time",  "year",  "people", "way",    "day",    "man",   "thing", "woman", "life",   "child",
    "world", "house", "school", "state",  "family", "group", "hand",  "part",  "place",  "case",
    "week",  "work",  "system", "night",  "point",  "home",  "water", "room",  "mother", "area",
    "money", "story", "fact",   "month",  "right",  "study", "book",  "eye",   "job",    "word",
    "side",  "kind",  "head",   "friend", "father", "power", "hour",  "game",  "line",   "end",
    "city",  "name",  "team",   "minute", "idea",   "body",  "back",  "face",  "door",   "car"};

void AppendTokens(const WorkloadOptions& options, std::int64_t n_tokens, RandomStream& random,
                  std::vector<Token>* tokens) {
  for (std::int64_t i = 0; i < n_tokens; ++i) {
    tokens->push_back(static_cast<Token>(random.Integer(kFirstToken, options.vocab_size - 1)));
  }
}

// Parses the whole text as a number from low to high.
template <class T>
std::optional<T> ParseWithin(std::string_view text, T low, T high) {
  const std::optional<T> value = ParseNumber<T>(text);
  return value && *value >= low && *value <= high ? value : std::nullopt;
}

// Reads "A:B".
template <class A, class B>
auto ParsePair(std::string_view text, A low_a, A high_a, B low_b, B high_b) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  return std::pair(ParseWithin<A>(text.substr(0, colon), low_a, high_a),
                   ParseWithin<B>(text.substr(std::min(colon + 1, text.size())), low_b, high_b));
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
  } else if (const auto tokens = ParseWithin(text, kOne, kMaxTokens)) {
    return Length{.low = *tokens};
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "expected a number of tokens, uniform:LOW:HIGH or lognormal:MEAN:SIGMA (sigma at "
      "most 4), found \"{}\"",
      text);
}

std::string LoadLevel::Name() const {
  return rate ? fmt::format("{:g} req/s", *rate) : fmt::format("{} at once", concurrency);
}

Result<Arrival> ParseArrival(std::string_view text) {
  constexpr std::string_view kGamma = "gamma:";
  if (text == "constant") return Arrival{.shape = std::nullopt};
  if (text == "poisson") return Arrival{};
  if (text.starts_with(kGamma)) {
    if (const auto shape = ParseWithin(text.substr(kGamma.size()), 0.01, 1000.0)) {
      return Arrival{.shape = *shape};
    }
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "expected constant, poisson or gamma:SHAPE with a shape from 0.01 to 1000, found "
      "\"{}\"",
      text);
}

double ArrivalTimes::Next() {
  const std::optional<double>& shape = level_.arrival.shape;
  if (has_begun_) time_ += (shape ? random_.Gamma(*shape) : 1) / *level_.rate;
  has_begun_ = true;
  return time_;
}

std::vector<Turn> MakeConversation(const WorkloadOptions& options, std::int64_t index) {
  RandomStream random(options.seed, RandomPurpose::kRequest, static_cast<std::uint64_t>(index));
  std::vector<Turn> turns(static_cast<std::size_t>(options.n_turns));
  if (options.shared_prefix > 0) {
    const auto group = static_cast<std::uint64_t>(index % options.n_groups);
    RandomStream prefix(options.seed, RandomPurpose::kPrefix, group);
    AppendTokens(options, options.shared_prefix, prefix, &turns.front().tokens);
  }
  for (Turn& turn : turns) {
    const std::int64_t n_input = options.input.Draw(random);
    turn.n_output = options.output.Draw(random);
    AppendTokens(options, n_input, random, &turn.tokens);
  }
  return turns;
}

std::string FormatWords(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<std::size_t>(token) % std::size(kWords)];
  }
  return text;
}

}  // namespace fathom::measure::load
