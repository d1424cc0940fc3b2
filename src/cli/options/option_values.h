// Readers of option values: each checks a text once and stores its value. Errors say "expected ...,
// found ...". Variables may be plain, std::optional, or a std::vector that grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "cli/options/parser.h"

namespace fathom::model {
struct DrafterKind;
}  // namespace fathom::model

namespace fathom::cli {

template <class Value, class T>
void Store(Value value, T& variable) {
  if constexpr (requires { variable.push_back(value); }) {
    variable.push_back(static_cast<typename T::value_type>(value));
  } else if constexpr (std::is_same_v<T, int>) {  // a value beyond int is too large anyway
    variable = static_cast<int>(std::min<std::int64_t>(value, std::numeric_limits<int>::max()));
  } else {
    variable = static_cast<T>(value);
  }
}

// Implementations of the readers below.
ReadValue ReadInteger(std::int64_t low, std::int64_t high, std::function<void(std::int64_t)> store);
ReadValue ReadNumber(double low, double high, bool low_is_allowed,
                     std::function<void(double)> store);
ReadValue ReadName(std::vector<std::string_view> names, std::function<void(std::size_t)> store);
ReadValue ReadSeed(std::function<void(std::uint64_t)> store);
ReadValue ReadMemorySize(std::function<void(std::int64_t)> store);

// Reads any text.
template <class T>
ReadValue Text(T& variable) {
  return [&variable](const std::string& text) {
    Store(text, variable);
    return Status();
  };
}

// Reads a whole number from low to high.
template <class T>
ReadValue Integer(std::int64_t low, std::int64_t high, T& variable) {
  return ReadInteger(low, high, [&variable](std::int64_t value) { Store(value, variable); });
}
template <class T>
ReadValue AtLeast(std::int64_t low, T& variable) {
  return Integer(low, std::numeric_limits<std::int64_t>::max(), variable);
}

// Reads a number from low to high; or above low and at most high.
template <class T>
ReadValue Number(double low, double high, T& variable) {
  return ReadNumber(low, high, true, [&variable](double value) { Store(value, variable); });
}
template <class T>
ReadValue NumberAbove(double low, double high, T& variable) {
  return ReadNumber(low, high, false, [&variable](double value) { Store(value, variable); });
}

// Reads one of `names`, as text.
ReadValue OneOf(std::vector<std::string_view> names, std::string& variable);
// Reads one of `names`, which are in the order of the enum.
template <class Enum, std::size_t n>
ReadValue OneOf(const std::string_view (&names)[n], Enum& variable) {
  using Value = typename decltype(std::optional(variable))::value_type;
  return ReadName({names, names + n},
                  [&variable](std::size_t i) { variable = static_cast<Value>(i); });
}
// Reads one of two names; `name` means true.
template <class Bool>
ReadValue TrueFor(std::string_view name, std::vector<std::string_view> names, Bool& variable) {
  return ReadName(names, [names, name, &variable](std::size_t i) { variable = names[i] == name; });
}
template <class Bool>
ReadValue OnOff(Bool& variable) {
  return TrueFor("on", {"on", "off"}, variable);
}

// Reads a whole number of 64 bits without a sign.
template <class T>
ReadValue Seed(T& variable) {
  return ReadSeed([&variable](std::uint64_t seed) { variable = seed; });
}

// Reads bytes: a whole number of at least 1, optionally followed by K, M, G or T for powers of
// 1024.
template <class T>
ReadValue MemorySize(T& variable) {
  return ReadMemorySize([&variable](std::int64_t bytes) { Store(bytes, variable); });
}

// Reads the depths of the drafter and of looked-up tokens (ServingOptions): off (0 and 0), auto
// (none and 0), lookup (0 and none), all (none and none), 1 to the greatest depth of a drafter (and
// 0), or lookup:1 to lookup:kMostLookups (0 and this).
ReadValue DraftDepths(std::optional<std::int64_t>& depth, std::optional<std::int64_t>& lookup);

// Reads none (nullptr) or the name of a draft head.
ReadValue DraftHeadName(const DrafterKind*& head);

// Reads ID=VALUE and adds it, unless the ID has a value.
ReadValue LogitBias(std::map<Token, double>& biases);

// Reads compression ratios separated by commas.
ReadValue Ratios(std::vector<int>& ratios);

// Reads numbers of processors and ranges of them, each once: 0-3,8
ReadValue Processors(std::function<void(std::vector<int>)> store);

// Reads a text by `parse`, a function that returns a Result.
template <class Parse, class T>
ReadValue Parsed(Parse parse, T& variable) {
  return [parse, &variable](const std::string& text) -> Status {
    auto parsed = parse(text);
    if (!parsed) return Unexpected(parsed.error());
    variable = *std::move(parsed);
    return {};
  };
}

}  // namespace fathom::cli
