#include "cli/options/option_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/metrics.h"
#include "measure/bench/row_spec.h"

namespace fathom::cli {
namespace {

// A check that refuses what `is_allowed` does not like.
template <class Predicate>
CLI::Validator Expect(std::string expectation, Predicate is_allowed) {
  return CLI::Validator(
      [expectation = std::move(expectation), is_allowed](std::string& text) {
        return is_allowed(text) ? std::string()
                                : fmt::format("expected {}, found \"{}\"", expectation, text);
      },
      "", "");
}

// All of text as a whole number. Leading zeros are refused: the parser would read them as octal.
template <class T>
std::optional<T> ParseInteger(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      (digits.size() > 1 && digits.front() == '0')) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> ParseMemorySize(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  if (unit != kUnits.npos) {
    text.remove_suffix(1);
  }
  const int shift = unit == kUnits.npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  const auto number = ParseInteger<std::int64_t>(text);
  if (!number || *number < 1 || *number > std::numeric_limits<std::int64_t>::max() >> shift) {
    return std::nullopt;
  }
  return *number << shift;
}

std::optional<double> ParseNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::pair<Token, float>> ParseLogitBias(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return std::nullopt;
  }
  const auto id = ParseInteger<Token>(std::string_view(text).substr(0, equals));
  const auto value = ParseNumber(text.substr(equals + 1));
  if (!id || *id < 0 || !value || std::abs(*value) > 100) {
    return std::nullopt;
  }
  return std::pair(*id, static_cast<float>(*value));
}

std::optional<std::vector<int>> ParseRatios(std::string_view text) {
  std::vector<int> ratios;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto ratio = ParseInteger<int>(text.substr(begin, end - begin));
    if (!ratio || (*ratio != 0 && *ratio != 4 && *ratio != 128)) {
      return std::nullopt;
    }
    ratios.push_back(*ratio);
    begin = end + 1;
  }
  return ratios;
}

// "3" or "0-3".
std::optional<std::pair<int, int>> ParseRange(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = ParseInteger<int>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : ParseInteger<int>(text.substr(dash + 1));
  constexpr int kLargest = 65535;
  if (!first || !last || *first < 0 || *last < *first || *last > kLargest) {
    return std::nullopt;
  }
  return std::pair(*first, *last);
}

std::optional<std::vector<int>> ParseProcessors(std::string_view text) {
  std::vector<int> processors;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto range = ParseRange(text.substr(0, comma));
    if (!range) {
      return std::nullopt;
    }
    for (int i = range->first; i <= range->second; ++i) {
      if (std::find(processors.begin(), processors.end(), i) != processors.end()) {
        return std::nullopt;
      }
      processors.push_back(i);
    }
    if (comma == std::string_view::npos) {
      return processors;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> allowed) {
  std::string expectation = fmt::format("one of {}", fmt::join(allowed, " "));
  return Expect(std::move(expectation), [allowed = std::move(allowed)](const std::string& text) {
    return std::find(allowed.begin(), allowed.end(), text) != allowed.end();
  });
}

CLI::Validator Integer(std::int64_t low, std::int64_t high) {
  std::string expectation = high == std::numeric_limits<std::int64_t>::max()
                                ? fmt::format("a whole number of at least {}", low)
                                : fmt::format("a whole number from {} to {}", low, high);
  return Expect(std::move(expectation), [low, high](const std::string& text) {
    const auto value = ParseInteger<std::int64_t>(text);
    return value && *value >= low && *value <= high;
  });
}

CLI::Validator AtLeast(std::int64_t low) {
  return Integer(low, std::numeric_limits<std::int64_t>::max());
}

CLI::Validator Seed() {
  return Expect("a whole number from 0 to 2^64 - 1", [](const std::string& text) {
    return ParseInteger<std::uint64_t>(text).has_value();
  });
}

CLI::Validator Number(double low, double high) {
  return Expect(fmt::format("a number from {} to {}", low, high),
                [low, high](const std::string& text) {
                  const auto value = ParseNumber(text);
                  return value && *value >= low && *value <= high;
                });
}

CLI::Validator NumberAbove(double low, double high) {
  return Expect(fmt::format("a number above {} and at most {}", low, high),
                [low, high](const std::string& text) {
                  const auto value = ParseNumber(text);
                  return value && *value > low && *value <= high;
                });
}

CLI::Validator MemorySize() {
  return Expect("a number of bytes like 65536, 512K, 64M, 16G or 1T",
                [](const std::string& text) { return ParseMemorySize(text).has_value(); });
}

std::int64_t MemorySizeOf(const std::string& text) { return ParseMemorySize(text).value_or(0); }

CLI::Validator DraftDepth() {
  std::vector<std::string> allowed = {"off", "auto"};
  for (int depth = 1; depth <= kMaxDraftDepth; ++depth) {
    allowed.push_back(std::to_string(depth));
  }
  return OneOf(std::move(allowed));
}

std::optional<std::int64_t> DraftDepthOf(const std::string& text) {
  return text == "auto" ? std::nullopt
                        : std::optional(ParseInteger<std::int64_t>(text).value_or(0));
}

CLI::Validator BenchRows() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto rows = bench::ParseRows(text);
        return rows ? std::string() : rows.error().message;
      },
      "", "");
}

CLI::Validator LogitBias() {
  return Expect("ID=VALUE with a value from -100 to 100",
                [](const std::string& text) { return ParseLogitBias(text).has_value(); });
}

CLI::Validator Processors() {
  return Expect("numbers of processors and ranges of them, each once, like 0-3,8",
                [](const std::string& text) { return ParseProcessors(text).has_value(); });
}

std::vector<int> ProcessorsOf(const std::string& text) {
  return ParseProcessors(text).value_or(std::vector<int>());
}

std::pair<Token, float> LogitBiasOf(const std::string& text) {
  return ParseLogitBias(text).value_or(std::pair<Token, float>());
}

CLI::Validator Ratios() {
  return Expect("ratios of 0, 4 or 128 separated by commas",
                [](const std::string& text) { return ParseRatios(text).has_value(); });
}

std::vector<int> RatiosOf(const std::string& text) {
  return ParseRatios(text).value_or(std::vector<int>());
}

}  // namespace fathom::cli
