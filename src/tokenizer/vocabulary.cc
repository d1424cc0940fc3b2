#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/seeded_hash.h"
#include "tokenizer/byte_level.h"

namespace fathom::tokenizer {
namespace {

struct TokenText {
  Token token;
  std::string bytes;
};

// Sorts by id and drops duplicates; refuses two entries that disagree. The work depends on the
// content of the file, not on its highest id.
Status SortTokens(std::vector<TokenText>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const TokenText& a, const TokenText& b) { return a.token < b.token; });
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i].token == tokens[i - 1].token && tokens[i].bytes != tokens[i - 1].bytes) {
      return MakeError(ErrorCode::kInvalidData,
                       "token id {}: expected one token, found '{}' and '{}'", tokens[i].token,
                       tokens[i - 1].bytes, tokens[i].bytes);
    }
  }
  const auto same_token = [](const TokenText& a, const TokenText& b) { return a.token == b.token; };
  tokens.erase(std::unique(tokens.begin(), tokens.end(), same_token), tokens.end());
  return {};
}

using TokensByText = std::unordered_map<std::string_view, Token, SeededHash>;

Result<TokensByText> IndexAddedTokens(const TokenizerFile& file) {
  TokensByText index;
  std::unordered_set<Token, SeededHash> tokens;
  for (const AddedToken& added : file.added_tokens) {
    if (!index.emplace(added.text, added.token).second) {
      return MakeError(ErrorCode::kInvalidData, "added token '{}' is listed twice", added.text);
    }
    if (!tokens.insert(added.token).second) {
      return MakeError(ErrorCode::kInvalidData, "added token '{}': its id {} is already taken",
                       added.text, added.token);
    }
  }
  return index;
}

// Tables by id may be only a little larger than the file's content: a real vocabulary has few
// unused ids.
constexpr std::size_t kMaxUnusedIds = 1 << 18;

// A vocabulary entry that is also an added token must agree with it in id and bytes. An entry that
// is not byte-level symbols must be an added token.
Status CollectVocabulary(const TokenizerFile& file, const TokensByText& added,
                         std::vector<TokenText>& tokens) {
  std::unordered_set<Token, SeededHash> seen;
  seen.reserve(file.vocabulary.size());
  for (const auto& [symbols, token] : file.vocabulary) {
    if (!seen.insert(token).second) {
      return MakeError(ErrorCode::kInvalidData, "vocabulary entry '{}': its id {} is already taken",
                       symbols, token);
    }
    const auto found = added.find(symbols);
    if (found != added.end() && found->second != token) {
      return MakeError(ErrorCode::kInvalidData,
                       "added token '{}': expected its id in the vocabulary, {}, found {}", symbols,
                       token, found->second);
    }
    std::optional<std::string> bytes = SymbolsToBytes(symbols);
    if (!bytes && found == added.end()) {
      return MakeError(ErrorCode::kInvalidData,
                       "vocabulary entry '{}': expected byte-level symbols or an added token",
                       symbols);
    }
    if (bytes) {
      tokens.push_back({token, std::move(*bytes)});
    }
  }
  return {};
}

// Returns the ids of the entries that are byte-level symbols.
TokensByText IndexSymbols(const TokenizerFile& file) {
  TokensByText index;
  index.reserve(file.vocabulary.size());
  for (const auto& [symbols, token] : file.vocabulary) {
    if (SymbolsToBytes(symbols)) {
      index.emplace(symbols, token);
    }
  }
  return index;
}

Result<std::array<Token, 256>> ResolveBytes(const TokensByText& index) {
  std::array<Token, 256> tokens = {};
  for (std::size_t byte = 0; byte < tokens.size(); ++byte) {
    const std::string symbol = ByteToSymbol(static_cast<std::uint8_t>(byte));
    const auto found = index.find(symbol);
    if (found == index.end()) {
      return MakeError(ErrorCode::kInvalidData,
                       "vocabulary: expected a token for every byte, found none for byte {} ('{}')",
                       byte, symbol);
    }
    tokens[byte] = found->second;
  }
  return tokens;
}

Result<Merge> ResolveMerge(const MergeEntry& entry, std::size_t rank, const TokensByText& index) {
  std::array<Token, 3> tokens = {};
  const std::array<std::string_view, 3> names = {entry.left(), entry.right(), entry.symbols};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = index.find(names[i]);
    if (found == index.end()) {
      return MakeError(ErrorCode::kInvalidData,
                       "merge {} ('{}' with '{}'): '{}' is not in the vocabulary", rank, names[0],
                       names[1], names[i]);
    }
    tokens[i] = found->second;
  }
  return Merge{tokens[0], tokens[1], tokens[2]};
}

}  // namespace

Result<Vocabulary> Vocabulary::Build(const TokenizerFile& file) {
  const Result<TokensByText> added = IndexAddedTokens(file);
  if (!added) return Unexpected(added.error());
  std::vector<TokenText> tokens;
  tokens.reserve(file.vocabulary.size() + file.added_tokens.size());
  Status status = CollectVocabulary(file, *added, tokens);
  if (!status) return Unexpected(status.error());
  for (const AddedToken& token : file.added_tokens) {
    tokens.push_back({token.token, token.text});
  }
  status = SortTokens(tokens);
  if (!status) return Unexpected(status.error());
  const std::size_t size = tokens.empty() ? 0 : static_cast<std::size_t>(tokens.back().token) + 1;
  if (size - tokens.size() > kMaxUnusedIds) {
    return MakeError(ErrorCode::kInvalidData,
                     "token ids: expected at most {} unused ones below the highest, {}, found {}",
                     kMaxUnusedIds, size - 1, size - tokens.size());
  }
  Vocabulary vocabulary;
  vocabulary.begins_.reserve(size + 1);
  for (const TokenText& token : tokens) {
    vocabulary.begins_.resize(static_cast<std::size_t>(token.token) + 1,
                              static_cast<std::uint32_t>(vocabulary.bytes_.size()));
    vocabulary.bytes_ += token.bytes;
    vocabulary.longest_ = std::max(vocabulary.longest_, token.bytes.size());
    if (vocabulary.bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return MakeError(ErrorCode::kInvalidData, "the texts of all tokens together exceed 4 GiB");
    }
  }
  vocabulary.begins_.push_back(static_cast<std::uint32_t>(vocabulary.bytes_.size()));
  vocabulary.is_special_.resize(size);
  for (const AddedToken& token : file.added_tokens) {
    vocabulary.is_special_[static_cast<std::size_t>(token.token)] = token.special;
  }
  return vocabulary;
}

Result<BpeModel> ResolveMerges(const TokenizerFile& file) {
  const TokensByText index = IndexSymbols(file);
  Result<std::array<Token, 256>> byte_tokens = ResolveBytes(index);
  if (!byte_tokens) return Unexpected(byte_tokens.error());
  BpeModel model = {*byte_tokens, {}, {}, file.ignore_merges};
  for (const VocabularyEntry& entry : file.vocabulary) {
    if (index.contains(entry.symbols)) {
      model.tokens.push_back(entry.token);
    }
  }
  std::unordered_set<std::uint64_t, SeededHash> pairs;
  pairs.reserve(file.merges.size());
  model.merges.reserve(file.merges.size());
  for (const MergeEntry& entry : file.merges) {
    const Result<Merge> merge = ResolveMerge(entry, model.merges.size(), index);
    if (!merge) return Unexpected(merge.error());
    const std::uint64_t pair =
        (static_cast<std::uint64_t>(merge->left) << 32) | static_cast<std::uint64_t>(merge->right);
    if (!pairs.insert(pair).second) {
      return MakeError(ErrorCode::kInvalidData, "merge {} ('{}' with '{}') is listed twice",
                       model.merges.size(), entry.left(), entry.right());
    }
    model.merges.push_back(*merge);
  }
  return model;
}

}  // namespace fathom::tokenizer
