// JsonShape: how many items the arrays and objects of a JSON text have, from one pass over its
// brackets, commas and quotes.
//
// Known before the values are read, the numbers bound the memory of the values and make every list
// as long as it needs to be, without room to grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "base/stop_check.h"

namespace fathom {

struct JsonShape {
  // The item counts of all arrays and objects that are not empty, in the order in which they begin.
  // A deque, because a vector that grows holds its numbers twice.
  std::deque<std::uint32_t> n_items;
  // Sums over all of them. A text that is not JSON has at least as many as it has before its error.
  std::uint64_t n_values = 0;
  std::uint64_t n_keys = 0;
  std::uint64_t most_keys = 0;  // of one object
};

// The text must be shorter than 4 GiB. Ends early at brackets nested deeper than `max_depth`, which
// are an error of the text. nullopt: `stop` said so.
std::optional<JsonShape> ReadJsonShape(std::string_view text, int max_depth,
                                       const StopFunction& stop);

// Returns the offset of the quote that closes a string, or the end of the text. `begin` is the
// offset behind the opening quote.
std::size_t FindClosingQuote(std::string_view text, std::size_t begin);

// Returns the text of the JSON value at the beginning of `text`, which must be one.
std::string_view FirstJsonValue(std::string_view text);

}  // namespace fathom
