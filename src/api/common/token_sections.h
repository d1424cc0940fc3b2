// TokenSections: the part of the answer that each generated token belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/common/answer_collector.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

enum class TokenSection {
  kReasoning,
  kContent,
  kMarkup,  // tags of the format, calls, the token that ended the answer, dropped text
};

// The parser reads text, not tokens, so the text of the tokens is aligned with the reasoning and
// then with the content; the rest is markup. A token is decided as soon as later text cannot change
// its section: when its text, or other text in its place, is in the answer. The sections do not
// depend on how the answer was split into events.
//
// Serves one choice in one thread. The tokenizer must outlive it.
class TokenSections {
 public:
  explicit TokenSections(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // All calls pass the same `answer`, which only grows.
  void Advance(const CollectedAnswer& answer);

  // Returns the sections of the first tokens, or of all tokens once the answer is finished.
  std::span<const TokenSection> sections() const { return sections_; }
  // Returns the number of tokens up to the last one that is known to be reasoning.
  std::int64_t n_reasoning() const { return n_reasoning_; }

 private:
  void ReadPiece(const CollectedAnswer& answer);
  std::optional<TokenSection> Decide(const CollectedAnswer& answer);

  const Tokenizer& tokenizer_;
  std::vector<TokenSection> sections_;
  std::int64_t n_reasoning_ = 0;
  std::size_t reasoning_bytes_ = 0;  // bytes of the reasoning that are aligned
  std::size_t content_bytes_ = 0;
  // A character that several tokens share belongs to the last of them; the others have no text and
  // join the section of the text that follows.
  Utf8Stream utf8_;
  std::optional<std::string> piece_;  // the text of the first undecided token
};

}  // namespace fathom
