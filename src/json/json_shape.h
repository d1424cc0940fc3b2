// JsonShape: the numbers of items in the arrays and objects of a JSON text, from one pass over its
// brackets, commas and quotes.
//
// Because the numbers are known before the values are read, they limit the memory of the values and
// give every list its final length, without spare capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "base/stop_check.h"

namespace fathom::json {

struct JsonShape {
  // The item counts of all arrays and objects that are not empty, in the order in which they begin.
  // A deque, because a vector that grows holds its numbers twice.
  std::deque<std::uint32_t> n_items;
  // Sums over all lists. For a text that is not JSON, the sums are at least the counts before its
  // error.
  std::uint64_t n_values = 0;
  std::uint64_t n_keys = 0;
  std::uint64_t most_keys = 0;  // the most keys of one object
};

// The text must be shorter than 4 GiB. Ends early at brackets nested deeper than `max_depth`, which
// are an error of the text. nullopt: `stop` returned true.
std::optional<JsonShape> ReadJsonShape(std::string_view text, int max_depth,
                                       const StopFunction& stop);

// Returns the offset of the quote that closes a string, or the end of the text. `begin` is the
// offset after the opening quote.
std::size_t FindClosingQuote(std::string_view text, std::size_t begin);

// Returns the text of the JSON value at the beginning of `text`, which must begin with one.
std::string_view FirstJsonValue(std::string_view text);

}  // namespace fathom::json
