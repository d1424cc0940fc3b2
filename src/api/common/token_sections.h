// Which part of the answer each generated token belongs to.
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
  kMarkup,  // tags of the format, calls, the token that ended the answer, text that was dropped
};

// The parser reads text and knows no tokens, so the tokens' text is laid along the reasoning and
// then along the content; what does not fit there is markup. A token is decided as soon as nothing
// that may still come can change its section: once its text is told, or other text in its place.
// The sections do not depend on how the answer came.
//
// One choice; one thread. The tokenizer must outlive it.
class TokenSections {
 public:
  explicit TokenSections(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // `answer` is the same one in all calls, and only grows.
  void Advance(const CollectedAnswer& answer);

  // Of the first tokens; of all of them once the answer is finished.
  std::span<const TokenSection> sections() const { return sections_; }
  // Tokens up to the last that is known to be of the reasoning.
  std::int64_t n_reasoning() const { return n_reasoning_; }

 private:
  void ReadPiece(const CollectedAnswer& answer);
  std::optional<TokenSection> Decide(const CollectedAnswer& answer);

  const Tokenizer& tokenizer_;
  std::vector<TokenSection> sections_;
  std::int64_t n_reasoning_ = 0;
  std::size_t reasoning_bytes_ = 0;  // of the reasoning, that the tokens so far are laid along
  std::size_t content_bytes_ = 0;
  // Characters that several tokens share belong, as text, to the last of them; the others have no
  // text and go with the text that follows.
  Utf8Stream utf8_;
  std::optional<std::string> piece_;  // the text of the first token that is not decided
};

}  // namespace fathom
