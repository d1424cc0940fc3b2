// tokenizer.json as plain data: parsed, type-checked, and refused if it needs a feature that this
// tokenizer does not have.
//
//   added_tokens   [{id, content, special}], no lstrip, rstrip or single_word
//   normalizer     none (null or an empty Sequence)
//   pre_tokenizer  Sequence of Split (Regex, Isolated, not inverted), then ByteLevel
//                  (add_prefix_space false, use_regex false); or that ByteLevel alone
//   model          BPE: vocab {symbols: id}, merges ["a b"] or [["a", "b"]]; symbols as in
//                  byte_level.h; no dropout, byte_fallback, prefix or suffix
//   post_processor, decoder  null or ByteLevel
// truncation and padding are settings for callers and are not read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::tokenizer {

struct VocabularyEntry {
  std::string symbols;  // byte-level symbols, or the text of an added token; not empty
  Token token;
};

// Entry r of the list is the pair with rank r, which is merged before all pairs with higher ranks.
struct MergeEntry {
  std::string symbols;     // left and right side together
  std::size_t left_bytes;  // 0 < left_bytes < symbols.size()

  std::string_view left() const { return std::string_view(symbols).substr(0, left_bytes); }
  std::string_view right() const { return std::string_view(symbols).substr(left_bytes); }
};

struct AddedToken {
  std::string text;  // not empty
  Token token;
  bool special;
};

struct TokenizerFile {
  std::vector<VocabularyEntry> vocabulary;
  std::vector<MergeEntry> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<std::string> patterns;  // patterns of the Split steps, in order
  bool ignore_merges = false;         // a piece that is in the vocabulary is always one token
};

// Token ids must be below this; far above any real vocabulary, small enough for tables by id.
inline constexpr Token kTokenLimit = 1 << 24;

// file_name is used only in messages. All ids are in [0, kTokenLimit); nothing else has been
// checked (see vocabulary.h).
Result<TokenizerFile> ParseTokenizerFile(std::string_view json, std::string_view file_name);

}  // namespace fathom::tokenizer
