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

// The parser reads text and knows no tokens, so the tokens' text is matched with the reasoning and
// then with the content; text that matches neither is markup. A token is decided as soon as nothing
// that may follow can change its section: once its text, or other text in its place, has been
// returned. The sections do not depend on how the answer arrived.
//
// One choice; one thread. The tokenizer must outlive it.
class TokenSections {
 public:
  explicit TokenSections(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // `answer` is the same one in all calls, and only grows.
  void Advance(const CollectedAnswer& answer);

  // The sections of the first tokens; of all tokens once the answer is finished.
  std::span<const TokenSection> sections() const { return sections_; }
  // Tokens up to the last that is known to be of the reasoning.
  std::int64_t n_reasoning() const { return n_reasoning_; }

 private:
  void ReadPiece(const CollectedAnswer& answer);
  std::optional<TokenSection> Decide(const CollectedAnswer& answer);

  const Tokenizer& tokenizer_;
  std::vector<TokenSection> sections_;
  std::int64_t n_reasoning_ = 0;
  std::size_t reasoning_bytes_ = 0;  // bytes of reasoning matched so far
  std::size_t content_bytes_ = 0;
  // Characters that several tokens share belong, as text, to the last of them; the others have no
  // text and go with the text that follows.
  Utf8Stream utf8_;
  std::optional<std::string> piece_;  // the text of the first token that is not decided
};

}  // namespace fathom
