// PromptLookup: drafts from a sequence's own tokens ("prompt lookup", "n-gram drafts"): what stood
// behind the newest tokens when they occurred before may follow them again. No draft head is
// needed, and looking up costs next to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace fathom {

// The most tokens that are looked up at once.
inline constexpr std::int64_t kMostLookups = 8;

// The index of one sequence: the position of the latest token with each hash of three tokens, and
// for every position the one before with the same hash. Memory: 8 to 12 bytes per token. One thread
// at a time.
class PromptLookup {
 public:
  static constexpr std::int64_t kShortest = 3;  // tokens that must match
  static constexpr std::int64_t kLongest = 32;  // of a match that are compared
  // Earlier occurrences that are compared: the latest ones. So a call compares no more than
  // kMostTried * kLongest tokens, whatever the text is.
  static constexpr int kMostTried = 16;

  struct Found {
    std::int64_t n_matching = 0;  // tokens of the match, at most kLongest; 0: none
    std::span<const Token> tokens;
  };

  // Finds the latest of the longest matches between the end of `tokens` and an earlier place, and
  // what followed there: exactly `most` tokens (no more than kMostLookups), since a match that
  // reaches the end goes on with itself. Valid until the next call. `tokens` are those of the call
  // before and further ones, which cost O(1) each on average.
  Found Find(std::span<const Token> tokens, std::int64_t most);

 private:
  static constexpr std::int32_t kNone = -1;

  std::size_t Slot(std::span<const Token> tokens, std::int64_t end) const;
  void Index(std::span<const Token> tokens);

  std::vector<std::int32_t> latest_;    // by slot: the last position of the latest three tokens
  std::vector<std::int32_t> previous_;  // by position: likewise, the one before in its slot
  std::vector<Token> found_;
};

}  // namespace fathom
