#include "constraint/masks/vocabulary.h"

#include <algorithm>

namespace fathom::constraint {

ConstraintVocabulary::ConstraintVocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size,
                                           std::span<const Token> end_tokens)
    : vocab_size_(vocab_size),
      texts_(static_cast<std::size_t>(vocab_size)),
      end_tokens_(end_tokens.begin(), end_tokens.end()) {
  const std::int64_t n_known = std::min(vocab_size, tokenizer.vocab_size());
  slices_.assign(kLargestSlice + 1, TokenSet(vocab_size));
  std::vector<TokenTrie::Entry> plain;
  std::vector<TokenTrie::Entry> others;
  for (Token token = 0; token < n_known; ++token) {
    const std::string_view text = tokenizer.TokenBytes(token);
    if (text.empty()) continue;
    if (tokenizer.Find(text) == token) {
      added_.emplace_back(text, token);
      continue;
    }
    std::string& kept = texts_[static_cast<std::size_t>(token)];
    kept = text;
    const int n = PlainCodePoints(kept);
    (n > 0 ? plain : others).push_back({kept, token});
    if (n > 0) slices_[static_cast<std::size_t>(n)].Add(token);
  }
  for (std::size_t n = 1; n < slices_.size(); ++n) slices_[n].Add(slices_[n - 1]);
  trie_ = TokenTrie::Make(std::move(others), std::move(plain));
  std::sort(added_.begin(), added_.end());
  // The tokens of docs/spec/tokenizer.md 7.
  meaningful_ = {.begin_of_sentence = Find("<｜begin▁of▁sentence｜>"),
                 .end_of_sentence = Find("<｜end▁of▁sentence｜>"),
                 .pad = Find("<｜▁pad▁｜>"),
                 .user = Find("<｜User｜>"),
                 .assistant = Find("<｜Assistant｜>"),
                 .think_open = Find("<think>"),
                 .think_close = Find("</think>"),
                 .dsml = Find("｜DSML｜")};
}

std::optional<Token> ConstraintVocabulary::Find(std::string_view text) const {
  const auto found = std::lower_bound(added_.begin(), added_.end(), text,
                                      [](const std::pair<std::string, Token>& entry,
                                         std::string_view key) { return entry.first < key; });
  if (found == added_.end() || found->first != text || found->second >= vocab_size_)
    return std::nullopt;
  return found->second;
}

}  // namespace fathom::constraint
