// StopStrings: ends a text before the first stop string, whatever pieces the text arrives in.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::engine {

// Works on bytes. The stop string that is complete first ends the text; if several are complete at
// the same byte, the longest does. Holds back text that may still become part of a stop string.
// Owns copies of the strings. One thread at a time.
class StopStrings {
 public:
  // `strings` must not be empty.
  explicit StopStrings(std::span<const std::string> strings);

  // Takes the next bytes of the text. Returns new bytes that cannot be part of a stop string; the
  // view is valid until the next call. Returns nothing after a match.
  std::string_view Feed(std::string_view piece);
  // Ends the text: returns the bytes held back. Empty after a match.
  std::string_view Flush();

  // Returns the index of the stop string found.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    // border[n]: the longest proper prefix of text[0, n) that is also its suffix (Knuth, Morris,
    // Pratt). border[0] is unused.
    std::vector<std::size_t> border;
    std::size_t n_matched = 0;  // bytes at the end of the text that match the pattern
  };

  void Advance(char byte);
  std::size_t LongestPartialMatch() const;

  std::vector<Pattern> patterns_;
  std::string pending_;       // the bytes returned last, then the bytes held back
  std::size_t returned_ = 0;  // number of bytes returned last
  std::optional<std::size_t> matched_;
};

}  // namespace fathom::engine
