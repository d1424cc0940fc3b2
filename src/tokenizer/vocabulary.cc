#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tokenizer/byte_level.h"

namespace fathom {
namespace {

// Bytes by id; refuses two entries that disagree. Sized by what is in the file, not by its highest
// id.
class Collector {
 public:
  Status Add(Token token, std::string bytes) {
    const auto [known, is_new] = bytes_.try_emplace(token, bytes);
    if (!is_new && known->second != bytes) {
      return MakeError(ErrorCode::kInvalidData,
                       "token id {}: expected one token, found '{}' and '{}'", token, known->second,
                       bytes);
    }
    return {};
  }

  std::string_view Bytes(Token token) const {
    const auto found = bytes_.find(token);
    return found == bytes_.end() ? std::string_view() : found->second;
  }

  Token n_tokens() const { return static_cast<Token>(bytes_.size()); }

 private:
  std::unordered_map<Token, std::string> bytes_;
};

using TokensByText = std::unordered_map<std::string_view, Token>;

Result<TokensByText> IndexAddedTokens(const TokenizerFile& file) {
  TokensByText index;
  std::unordered_set<Token> tokens;
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

// Tables by id may not grow far beyond what the file holds: a real vocabulary has few unused ids.
constexpr Token kMaxUnusedIds = 1 << 18;

// The highest id + 1.
Token CountTokens(const TokenizerFile& file) {
  Token highest = -1;
  for (const VocabularyEntry& entry : file.vocabulary) {
    highest = std::max(highest, entry.token);
  }
  for (const AddedToken& added : file.added_tokens) {
    highest = std::max(highest, added.token);
  }
  return highest + 1;
}

// A vocabulary entry that is also an added token must agree with it in id and bytes; one that is
// not byte-level symbols must be an added token.
Status CollectVocabulary(const TokenizerFile& file, const TokensByText& added,
                         Collector& collector) {
  std::unordered_set<Token> seen;
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
      Status status = collector.Add(token, std::move(*bytes));
      if (!status) return status;
    }
  }
  return {};
}

// Ids of the entries that are byte-level symbols.
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
  const Token n_tokens = CountTokens(file);
  Collector collector;
  Status status = CollectVocabulary(file, *added, collector);
  if (!status) return Unexpected(status.error());
  Vocabulary vocabulary;
  for (const AddedToken& token : file.added_tokens) {
    status = collector.Add(token.token, token.text);
    if (!status) return Unexpected(status.error());
  }
  if (n_tokens - collector.n_tokens() > kMaxUnusedIds) {
    return MakeError(ErrorCode::kInvalidData,
                     "token ids: expected at most {} unused ones below the highest, {}, found {}",
                     kMaxUnusedIds, n_tokens - 1, n_tokens - collector.n_tokens());
  }
  vocabulary.is_special_.resize(static_cast<std::size_t>(n_tokens));
  for (const AddedToken& token : file.added_tokens) {
    vocabulary.is_special_[static_cast<std::size_t>(token.token)] = token.special;
  }
  vocabulary.begins_.reserve(static_cast<std::size_t>(n_tokens) + 1);
  vocabulary.begins_.push_back(0);
  for (Token token = 0; token < n_tokens; ++token) {
    vocabulary.bytes_ += collector.Bytes(token);
    if (vocabulary.bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return MakeError(ErrorCode::kInvalidData, "the texts of all tokens together exceed 4 GiB");
    }
    vocabulary.begins_.push_back(static_cast<std::uint32_t>(vocabulary.bytes_.size()));
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
  std::unordered_set<std::uint64_t> pairs;
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

}  // namespace fathom
