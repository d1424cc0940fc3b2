#include "measure/load/load_plan.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

namespace fathom::load {
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

}  // namespace

std::string LoadLevel::Name() const {
  return rate ? fmt::format("{:g} req/s", *rate) : fmt::format("{} at once", concurrency);
}

Result<Arrival> ParseArrival(std::string_view text) {
  constexpr std::string_view kGamma = "gamma:";
  if (text == "constant") return Arrival{.kind = ArrivalKind::kConstant};
  if (text == "poisson") return Arrival{};
  if (text.starts_with(kGamma)) {
    double shape = 0;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kGamma.size(), last, shape);
    if (error == std::errc() && end == last && shape >= 0.01 && shape <= 1000) {
      return Arrival{.kind = ArrivalKind::kGamma, .shape = shape};
    }
  }
  return MakeError(
      ErrorCode::kInvalidArgument,
      "expected constant, poisson or gamma:SHAPE with a shape from 0.01 to 1000, found "
      "\"{}\"",
      text);
}

double ArrivalTimes::Next() {
  if (!has_begun_) {
    has_begun_ = true;
    return 0;
  }
  switch (level_.arrival.kind) {
    case ArrivalKind::kConstant:
      time_ += 1 / *level_.rate;
      break;
    case ArrivalKind::kPoisson:
      time_ += random_.Gamma(1) / *level_.rate;
      break;
    case ArrivalKind::kGamma:
      time_ += random_.Gamma(level_.arrival.shape) / *level_.rate;
      break;
  }
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

std::string WordsOf(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<std::size_t>(token) % std::size(kWords)];
  }
  return text;
}

}  // namespace fathom::load
