#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstdint>

namespace fathom {

AddedTokenFinder::AddedTokenFinder(std::span<const AddedToken> tokens) {
  for (const AddedToken& token : tokens) {
    entries_.push_back({token.text, token.token});
    first_bytes_.set(static_cast<std::uint8_t>(token.text.front()));
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
}

// Narrows the sorted entries to those that agree with the text in one more byte at each step. An
// entry that ends here sorts before longer ones, so it is the first of the range.
std::optional<AddedTokenMatch> AddedTokenFinder::FindNext(std::string_view text,
                                                          std::size_t start) const {
  for (std::size_t begin = start; begin < text.size(); ++begin) {
    if (!first_bytes_.test(static_cast<std::uint8_t>(text[begin]))) {
      continue;
    }
    std::optional<AddedTokenMatch> longest;
    auto low = entries_.begin();
    auto high = entries_.end();
    for (std::size_t end = begin; low != high; ++end) {
      if (low->text.size() == end - begin) {
        longest = {begin, end, low->token};
        ++low;
      }
      if (end == text.size()) {
        break;
      }
      // Compares unsigned bytes, as std::string does.
      const auto byte = static_cast<std::uint8_t>(text[end]);
      const auto byte_of = [depth = end - begin](const Entry& entry) {
        return static_cast<std::uint8_t>(entry.text[depth]);
      };
      low = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) < byte; });
      high = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) == byte; });
    }
    if (longest) {
      return longest;
    }
  }
  return std::nullopt;
}

std::optional<Token> AddedTokenFinder::Find(std::string_view text) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), text,
                       [](const Entry& entry, std::string_view key) { return entry.text < key; });
  if (found == entries_.end() || found->text != text) {
    return std::nullopt;
  }
  return found->token;
}

}  // namespace fathom
