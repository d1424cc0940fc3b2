// StopStrings: ends a text before the first stop string, however the text arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Works on bytes. The first stop string is the one that is complete first; of several that end with
// the same byte, the longest. Text that may still become part of a stop string is held back. Owns
// copies of the strings. One thread at a time.
class StopStrings {
 public:
  // No string may be empty.
  explicit StopStrings(std::span<const std::string> strings);

  // The next bytes of the text. Returns those bytes of the text, not returned before, that cannot
  // be part of a stop string; the view is valid until the next call. After a match: nothing more.
  std::string_view Feed(std::string_view piece);
  // The text has ended: what is held back. Empty after a match.
  std::string_view Flush();

  // Index of the stop string found.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    // border[n]: the longest proper prefix of text[0, n) that is also its suffix (Knuth, Morris,
    // Pratt). border[0] is unused.
    std::vector<std::size_t> border;
    std::size_t n_matched = 0;  // the text so far ends with this many bytes of the pattern
  };

  void Advance(char byte);
  std::size_t LongestPartialMatch() const;

  std::vector<Pattern> patterns_;
  std::string pending_;       // the view returned last, then the bytes held back
  std::size_t returned_ = 0;  // length of the former
  std::optional<std::size_t> matched_;
};

}  // namespace fathom
