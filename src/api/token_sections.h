// Which part of the answer each generated token belongs to.
#ifndef FATHOM_API_TOKEN_SECTIONS_H_
#define FATHOM_API_TOKEN_SECTIONS_H_

#include <cstdint>
#include <vector>

#include "api/answer_collector.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

enum class TokenSection {
  kReasoning,
  kContent,
  kMarkup,  // tags of the format, calls, the token that ended the answer, text that was dropped
};

// One for each token. The parser reads text and knows no tokens, so the tokens' text is laid along
// the reasoning and then along the content; what does not fit there is markup.
std::vector<TokenSection> SectionsOf(const CollectedAnswer& answer, const Tokenizer& tokenizer);

// Tokens up to the last of the reasoning.
std::int64_t CountReasoning(const std::vector<TokenSection>& sections);

}  // namespace fathom

#endif  // FATHOM_API_TOKEN_SECTIONS_H_
