// The vocabulary of a model as constraints read it: tries, slices, and the tokens with a meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "constraint/masks/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {

// Tokens that the template of V4 gives a meaning; nullopt: the tokenizer lacks the token.
struct MeaningfulTokens {
  std::optional<Token> begin_of_sentence;
  std::optional<Token> end_of_sentence;
  std::optional<Token> pad;
  std::optional<Token> user;
  std::optional<Token> assistant;
  std::optional<Token> think_open;
  std::optional<Token> think_close;
  std::optional<Token> dsml;
};

// The vocabulary as a trie, with the tokens that constraints name. Immutable; shared by all
// constraints of a model.
class ConstraintVocabulary {
 public:
  // vocab_size: the rows of the model's logits; tokens without bytes are never allowed.
  // `end_tokens` end an answer. The tokenizer may be destroyed afterwards.
  ConstraintVocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size,
                       std::span<const Token> end_tokens);

  std::int64_t vocab_size() const { return vocab_size_; }
  // The text of a token that grammars may read byte by byte; empty for added tokens.
  std::string_view Text(Token token) const { return texts_[static_cast<std::size_t>(token)]; }
  bool Has(Token token) const { return token >= 0 && token < vocab_size_; }
  // The tokens of slice n, 0 to kLargestSlice (character_classes.h).
  const TokenSet& Slice(int n) const { return slices_[static_cast<std::size_t>(n)]; }
  // All texts; the plain ones are the largest slice.
  const TokenTrie& texts() const { return trie_; }
  const std::vector<Token>& end_tokens() const { return end_tokens_; }
  const MeaningfulTokens& meaningful() const { return meaningful_; }
  std::optional<Token> Find(std::string_view text) const;

 private:
  std::int64_t vocab_size_;
  std::vector<std::string> texts_;
  std::vector<std::pair<std::string, Token>> added_;  // ascending
  std::vector<TokenSet> slices_;
  TokenTrie trie_;
  std::vector<Token> end_tokens_;
  MeaningfulTokens meaningful_;
};

}  // namespace fathom::constraint
