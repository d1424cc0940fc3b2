#include "api/token_sections.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace fathom {
namespace {

// Takes tokens from the front of a text.
class Along {
 public:
  explicit Along(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }

  // Whether the text goes on with that of the token, or ends inside it (before a stop string, say).
  // The parser may have dropped newlines in front, and a token may hold them and more.
  bool Take(std::string_view piece) {
    if (TakeExactly(piece)) return true;
    const std::size_t begin = piece.find_first_not_of('\n');
    return begin != 0 && begin != std::string_view::npos && TakeExactly(piece.substr(begin));
  }

 private:
  bool TakeExactly(std::string_view piece) {
    const std::size_t n_bytes = std::min(piece.size(), rest_.size());
    if (rest_.empty() || rest_.substr(0, n_bytes) != piece.substr(0, n_bytes)) return false;
    rest_.remove_prefix(n_bytes);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::vector<TokenSection> SectionsOf(const CollectedAnswer& answer, const Tokenizer& tokenizer) {
  std::vector<TokenSection> sections;
  sections.reserve(answer.tokens.size());
  Along reasoning(answer.answer.reasoning_content);
  Along content(answer.answer.content);
  // Characters that several tokens share belong, as text, to the last of them; the others have no
  // text and fit everywhere.
  Utf8Stream utf8;
  std::string piece;
  for (const Token token : answer.tokens) {
    piece.clear();
    utf8.Push(tokenizer.TokenBytes(token), piece);
    TokenSection section = TokenSection::kMarkup;
    if (!reasoning.done()) {
      section = reasoning.Take(piece) ? TokenSection::kReasoning : TokenSection::kMarkup;
    } else if (content.Take(piece)) {
      section = TokenSection::kContent;
    }
    sections.push_back(section);
  }
  return sections;
}

std::int64_t CountReasoning(const std::vector<TokenSection>& sections) {
  const auto last = std::find(sections.rbegin(), sections.rend(), TokenSection::kReasoning);
  return static_cast<std::int64_t>(sections.rend() - last);
}

}  // namespace fathom
