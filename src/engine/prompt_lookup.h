// PromptLookup: drafts from a sequence's own tokens ("prompt lookup", "n-gram drafts"): the tokens
// that followed an earlier occurrence of the newest tokens may follow them again. Needs no draft
// head, and a lookup costs next to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace fathom::engine {

// The most tokens that one lookup drafts.
inline constexpr std::int64_t kMostLookups = 8;

// The index of one sequence: for each hash of three tokens, the position of the latest three with
// this hash; for each position, the previous one with the same hash. Memory: 8 to 12 bytes per
// token. One thread at a time.
class PromptLookup {
 public:
  static constexpr std::int64_t kShortest = 3;  // tokens that must match
  static constexpr std::int64_t kLongest = 32;  // the most tokens of a match that are compared
  // The latest earlier occurrences are compared, at most this many. So a call compares no more than
  // kMostTried * kLongest tokens, whatever the text is.
  static constexpr int kMostTried = 16;

  struct Found {
    std::int64_t n_matching = 0;  // tokens of the match, at most kLongest; 0: none
    std::span<const Token> tokens;
  };

  // Finds the latest of the longest matches between the end of `tokens` and an earlier place, and
  // returns the tokens that followed there: exactly `most` (no more than kMostLookups), because a
  // match that reaches the end continues with itself. Valid until the next call. `tokens` must
  // begin with the tokens of the previous call; additional tokens cost O(1) each on average.
  Found Find(std::span<const Token> tokens, std::int64_t most);

 private:
  static constexpr std::int32_t kNone = -1;

  std::size_t Slot(std::span<const Token> tokens, std::int64_t end) const;
  void Index(std::span<const Token> tokens);

  std::vector<std::int32_t> latest_;    // by slot: the last position of the latest three tokens
  std::vector<std::int32_t> previous_;  // by position: the previous position in its slot
  std::vector<Token> found_;
};

}  // namespace fathom::engine
