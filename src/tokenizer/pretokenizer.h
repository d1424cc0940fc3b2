// PreTokenizer: splits text into the pieces for byte-pair encoding (docs/spec/tokenizer.md 3).
//
// Applies a list of regular expressions one after another: each splits every piece of the previous
// step separately (look-ahead does not see past a piece). Matches become pieces, and so does the
// text between two matches ("Split, Isolated" of tokenizer.json).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop_check.h"

namespace fathom::tokenizer {

// Owns the compiled patterns; movable; many threads may call Split concurrently.
class PreTokenizer {
 public:
  // patterns: as in tokenizer.json. Errors (kUnsupported): a pattern that the published files do
  // not have; more than 32 patterns.
  static Result<PreTokenizer> Create(std::span<const std::string> patterns);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the pieces of text, in order; they are not empty, cover text, and are views into it.
  // text must be valid UTF-8. The work is bounded by a multiple of the text's length: a pattern
  // that exceeds the bound is an error, and so is a `stop` that returns true (kUnavailable). PCRE2
  // knows the characters of Unicode 14.
  Status Split(std::string_view text, std::vector<std::string_view>& pieces,
               const StopFunction& stop = {}) const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace fathom::tokenizer
