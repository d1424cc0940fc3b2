// JsonShape: how many items the arrays and objects of a JSON text have, from one pass over its
// brackets, commas and quotes.
//
// Known before the values are read, the numbers bound the memory of the values and make every list
// as long as it needs to be, without room to grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>

namespace fathom {

struct JsonShape {
  // Of each array and object that is not empty, in the order in which they begin. A deque, because
  // a vector that grows holds its numbers twice.
  std::deque<std::uint32_t> n_items;
  // Sums over all of them. A text that is not JSON has at least as many as it has before its error.
  std::uint64_t n_values = 0;
  std::uint64_t n_keys = 0;
  std::uint64_t most_keys = 0;  // of one object
};

// Asks a function at most once per 64 KiB of a text whether to stop.
class StopCheck {
 public:
  // `stop` may be empty, and must outlive the object.
  explicit StopCheck(const std::function<bool()>& stop) : stop_(stop) {}

  // `position`: bytes of the text that have been read.
  bool IsStopped(std::size_t position) {
    if (position < next_) return false;
    next_ = position + kBytes;
    return stop_ && stop_();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  const std::function<bool()>& stop_;
  std::size_t next_ = kBytes;
};

// The text must be shorter than 4 GiB. Ends early at brackets nested deeper than `max_depth`, which
// are an error of the text. nullopt: `stop` said so.
std::optional<JsonShape> ReadJsonShape(std::string_view text, int max_depth,
                                       const std::function<bool()>& stop);

// Returns the offset of the quote that closes a string, or the end of the text. `begin` is the
// offset behind the opening quote.
std::size_t FindClosingQuote(std::string_view text, std::size_t begin);

// Returns the text of the JSON value at the beginning of `text`, which must be one.
std::string_view FirstJsonValue(std::string_view text);

}  // namespace fathom
