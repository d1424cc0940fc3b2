#include "api/common/token_sections.h"

#include <algorithm>
#include <string_view>

namespace fathom {
namespace {

// `rest` is not empty. Returns nullopt if more of the text must be known first. `is_over`: the text
// does not grow any more. If true, *taken is the number of bytes that the token covers.
std::optional<bool> FitsExactly(std::string_view rest, std::string_view piece, bool is_over,
                                std::size_t* taken) {
  const std::size_t n_bytes = std::min(piece.size(), rest.size());
  if (rest.substr(0, n_bytes) != piece.substr(0, n_bytes)) return false;
  // The text may end inside a token, for example before a stop string, but not before the token.
  if (n_bytes < piece.size() && !is_over) return std::nullopt;
  *taken = n_bytes;
  return true;
}

// Returns whether the text continues with that of the token. The parser may have dropped newlines
// at the front, and a token may hold them and more.
std::optional<bool> Fits(std::string_view rest, std::string_view piece, bool is_over,
                         std::size_t* taken) {
  if (rest.empty()) return is_over ? std::optional(false) : std::nullopt;
  const std::optional<bool> fits = FitsExactly(rest, piece, is_over, taken);
  const std::size_t begin = piece.find_first_not_of('\n');
  if (fits != false || begin == 0 || begin == std::string_view::npos) return fits;
  return FitsExactly(rest, piece.substr(begin), is_over, taken);
}

}  // namespace

void TokenSections::Advance(const CollectedAnswer& answer) {
  while (sections_.size() < answer.tokens.size()) {
    ReadPiece(answer);
    const std::optional<TokenSection> section = Decide(answer);
    if (!section) return;
    sections_.push_back(*section);
    piece_.reset();
    if (section == TokenSection::kReasoning) {
      n_reasoning_ = static_cast<std::int64_t>(sections_.size());
    }
  }
}

void TokenSections::ReadPiece(const CollectedAnswer& answer) {
  if (piece_) return;
  piece_.emplace();
  utf8_.Push(tokenizer_.TokenBytes(answer.tokens[sections_.size()]), *piece_);
}

std::optional<TokenSection> TokenSections::Decide(const CollectedAnswer& answer) {
  const Answer& text = answer.answer;
  // No content follows calls, and no reasoning follows either.
  const bool is_over = answer.finish || !text.tool_calls.empty();
  const std::string_view reasoning =
      std::string_view(text.reasoning_content).substr(reasoning_bytes_);
  const bool reasoning_is_over = is_over || !text.content.empty();
  std::size_t taken = 0;
  if (!reasoning.empty() || !reasoning_is_over) {
    const std::optional<bool> fits = Fits(reasoning, *piece_, reasoning_is_over, &taken);
    if (!fits) return std::nullopt;
    reasoning_bytes_ += taken;
    return *fits ? TokenSection::kReasoning : TokenSection::kMarkup;
  }
  const std::string_view content = std::string_view(text.content).substr(content_bytes_);
  const std::optional<bool> fits = Fits(content, *piece_, is_over, &taken);
  if (!fits) return std::nullopt;
  content_bytes_ += taken;
  return *fits ? TokenSection::kContent : TokenSection::kMarkup;
}

}  // namespace fathom
