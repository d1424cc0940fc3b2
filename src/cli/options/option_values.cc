#include "cli/options/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "base/parse_text.h"
#include "engine/prompt_lookup.h"
#include "model/draft/drafters.h"

namespace fathom::cli {
namespace {

// Stores the value that `parse` returns for a text; otherwise the error "expected `what`".
template <class Parse, class Keep>
ReadValue Expect(std::string what, Parse parse, Keep keep) {
  return [what = std::move(what), parse, keep](const std::string& text) -> Status {
    auto value = parse(text);
    if (!value) {
      return MakeError(ErrorCode::kInvalidArgument, "expected {}, found \"{}\"", what, text);
    }
    keep(*std::move(value));
    return {};
  };
}

// Parses all of text as a whole number without leading zeros, which some readers take for octal.
template <class T>
std::optional<T> ParseInteger(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  return digits.size() > 1 && digits.front() == '0' ? std::nullopt : ParseNumber<T>(text);
}

std::optional<double> ParseReal(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Parses a number of bytes, or a whole or decimal number with a unit.
std::optional<std::int64_t> ParseMemorySize(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  if (unit != kUnits.npos) text.remove_suffix(1);
  const int shift = unit == kUnits.npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  const std::size_t point = text.find('.');
  const std::string_view decimals = point == text.npos ? "0" : text.substr(point + 1);
  if (decimals.empty() || decimals.find_first_not_of("0123456789") != decimals.npos ||
      (point != text.npos && shift == 0)) {
    return std::nullopt;
  }
  const auto whole = ParseInteger<std::int64_t>(text.substr(0, point));
  const std::optional<double> fraction = ParseReal("0." + std::string(decimals));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (!whole || !fraction || *whole < 0 || *whole >= kMost >> shift) return std::nullopt;
  const std::int64_t bytes =
      (*whole << shift) + static_cast<std::int64_t>(std::ldexp(*fraction, shift));
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

std::optional<std::pair<Token, float>> ParseLogitBias(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return std::nullopt;
  const auto id = ParseInteger<Token>(std::string_view(text).substr(0, equals));
  const auto value = ParseReal(text.substr(equals + 1));
  if (!id || *id < 0 || !value || std::abs(*value) > 100) return std::nullopt;
  return std::pair(*id, static_cast<float>(*value));
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<std::vector<int>> ParseRatios(std::string_view text) {
  std::vector<int> ratios;
  for (const std::string_view part : SplitAtCommas(text)) {
    const auto ratio = ParseInteger<int>(part);
    if (!ratio || (*ratio != 0 && *ratio != 4 && *ratio != 128)) return std::nullopt;
    ratios.push_back(*ratio);
  }
  return ratios;
}

std::optional<std::vector<int>> ParseProcessors(std::string_view text) {
  constexpr int kLargest = 65535;
  std::vector<int> processors;
  for (const std::string_view part : SplitAtCommas(text)) {
    const std::size_t dash = part.find('-');
    const auto first = ParseInteger<int>(part.substr(0, dash));
    const auto last = dash == part.npos ? first : ParseInteger<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kLargest) return std::nullopt;
    for (int i = *first; i <= *last; ++i) {
      if (std::find(processors.begin(), processors.end(), i) != processors.end()) {
        return std::nullopt;
      }
      processors.push_back(i);
    }
  }
  return processors;
}

}  // namespace

ReadValue ReadInteger(std::int64_t low, std::int64_t high,
                      std::function<void(std::int64_t)> store) {
  return Expect(
      high == std::numeric_limits<std::int64_t>::max()
          ? fmt::format("a whole number of at least {}", low)
          : fmt::format("a whole number from {} to {}", low, high),
      [low, high](const std::string& text) {
        const auto value = ParseInteger<std::int64_t>(text);
        return value && *value >= low && *value <= high ? value : std::nullopt;
      },
      std::move(store));
}

ReadValue ReadNumber(double low, double high, bool low_is_allowed,
                     std::function<void(double)> store) {
  return Expect(
      low_is_allowed ? fmt::format("a number from {} to {}", low, high)
                     : fmt::format("a number above {} and at most {}", low, high),
      [=](const std::string& text) {
        const auto value = ParseReal(text);
        const bool fits =
            value && *value <= high && (low_is_allowed ? *value >= low : *value > low);
        return fits ? value : std::nullopt;
      },
      std::move(store));
}

ReadValue ReadName(std::vector<std::string_view> names, std::function<void(std::size_t)> store) {
  return Expect(
      fmt::format("one of {}", fmt::join(names, " ")),
      [names](const std::string& text) -> std::optional<std::size_t> {
        const auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end()) return std::nullopt;
        return static_cast<std::size_t>(found - names.begin());
      },
      std::move(store));
}

ReadValue OneOf(std::vector<std::string_view> names, std::string& variable) {
  return ReadName(names, [names, &variable](std::size_t i) { variable = names[i]; });
}

ReadValue ReadSeed(std::function<void(std::uint64_t)> store) {
  return Expect("a whole number from 0 to 2^64 - 1", ParseInteger<std::uint64_t>, std::move(store));
}

ReadValue ReadMemorySize(std::function<void(std::int64_t)> store) {
  return Expect("a number of bytes like 65536, 512K, 64M, 1.5G or 1T", ParseMemorySize,
                std::move(store));
}

ReadValue DraftDepths(std::optional<std::int64_t>& depth, std::optional<std::int64_t>& lookup) {
  using Depths = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;
  static constexpr std::string_view kDigits = "123456789";
  static constexpr std::array<std::string_view, kMostLookups> kLookups = {
      "lookup:1", "lookup:2", "lookup:3", "lookup:4",
      "lookup:5", "lookup:6", "lookup:7", "lookup:8"};
  std::vector<std::string_view> names = {"off", "auto", "lookup", "all"};
  std::vector<Depths> depths = {{0, 0}, {std::nullopt, 0}, {0, std::nullopt}, {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(GreatestDraftDepth()); ++i) {
    names.push_back(kDigits.substr(i, 1));
    depths.emplace_back(i + 1, 0);
  }
  for (std::size_t i = 0; i < kLookups.size(); ++i) {
    names.push_back(kLookups[i]);
    depths.emplace_back(0, i + 1);
  }
  return ReadName(std::move(names), [&depth, &lookup, depths = std::move(depths)](std::size_t i) {
    std::tie(depth, lookup) = depths[i];
  });
}

ReadValue DraftHeadName(const DrafterKind*& head) {
  std::vector<std::string_view> names = {"none"};
  for (const DrafterKind* kind : Drafters()) names.push_back(kind->option);
  return ReadName(std::move(names),
                  [&head](std::size_t i) { head = i == 0 ? nullptr : Drafters()[i - 1]; });
}

ReadValue LogitBias(std::map<Token, double>& biases) {
  return Expect("ID=VALUE with a value from -100 to 100", ParseLogitBias,
                [&biases](std::pair<Token, float> bias) { biases.insert(bias); });
}

ReadValue Ratios(std::vector<int>& ratios) {
  return Expect("ratios of 0, 4 or 128 separated by commas", ParseRatios,
                [&ratios](std::vector<int> all) { ratios = std::move(all); });
}

ReadValue Processors(std::function<void(std::vector<int>)> store) {
  return Expect("numbers of processors and ranges of them, each once, like 0-3,8", ParseProcessors,
                std::move(store));
}

}  // namespace fathom::cli
