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

// Bytes by id, with the errors of two entries that disagree.
class Collector {
 public:
  explicit Collector(std::size_t n_tokens) : bytes_(n_tokens) {}

  Status Add(Token token, std::string bytes) {
    std::string& known = bytes_[static_cast<std::size_t>(token)];
    if (!known.empty() && known != bytes) {
      return MakeError(ErrorCode::kInvalidData,
                       "token id {}: expected one token, found '{}' and '{}'", token, known, bytes);
    }
    known = std::move(bytes);
    return {};
  }

  const std::vector<std::string>& bytes() const { return bytes_; }

 private:
  std::vector<std::string> bytes_;
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

std::size_t CountTokens(const TokenizerFile& file) {
  Token highest = -1;
  for (const VocabularyEntry& entry : file.vocabulary) {
    highest = std::max(highest, entry.token);
  }
  for (const AddedToken& added : file.added_tokens) {
    highest = std::max(highest, added.token);
  }
  return static_cast<std::size_t>(highest + 1);
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

}  // namespace

Result<Vocabulary> Vocabulary::Build(const TokenizerFile& file) {
  const Result<TokensByText> added = IndexAddedTokens(file);
  if (!added) return Unexpected(added.error());
  Collector collector(CountTokens(file));
  Status status = CollectVocabulary(file, *added, collector);
  if (!status) return Unexpected(status.error());
  Vocabulary vocabulary;
  vocabulary.is_special_.resize(collector.bytes().size());
  for (const AddedToken& token : file.added_tokens) {
    status = collector.Add(token.token, token.text);
    if (!status) return Unexpected(status.error());
    vocabulary.is_special_[static_cast<std::size_t>(token.token)] = token.special;
  }
  vocabulary.begins_.reserve(collector.bytes().size() + 1);
  vocabulary.begins_.push_back(0);
  for (const std::string& bytes : collector.bytes()) {
    vocabulary.bytes_ += bytes;
    if (vocabulary.bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return MakeError(ErrorCode::kInvalidData, "the texts of all tokens together exceed 4 GiB");
    }
    vocabulary.begins_.push_back(static_cast<std::uint32_t>(vocabulary.bytes_.size()));
  }
  return vocabulary;
}

Result<BpeModel> ResolveMerges(const TokenizerFile& file) {
  BpeModel model;
  model.ignore_merges = file.ignore_merges;
  TokensByText tokens;
  tokens.reserve(file.vocabulary.size());
  for (const auto& [symbols, token] : file.vocabulary) {
    if (SymbolsToBytes(symbols)) {
      tokens.emplace(symbols, token);
      model.tokens.push_back(token);
    }
  }
  for (std::size_t byte = 0; byte < model.byte_tokens.size(); ++byte) {
    const std::string symbol = ByteToSymbol(static_cast<std::uint8_t>(byte));
    const auto found = tokens.find(symbol);
    if (found == tokens.end()) {
      return MakeError(ErrorCode::kInvalidData,
                       "vocabulary: expected a token for every byte, found none for byte {} ('{}')",
                       byte, symbol);
    }
    model.byte_tokens[byte] = found->second;
  }
  std::unordered_set<std::uint64_t> pairs;
  pairs.reserve(file.merges.size());
  model.merges.reserve(file.merges.size());
  for (const MergeEntry& merge : file.merges) {
    std::array<Token, 3> ids = {};
    const std::array<std::string_view, 3> names = {merge.left(), merge.right(), merge.symbols};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto found = tokens.find(names[i]);
      if (found == tokens.end()) {
        return MakeError(ErrorCode::kInvalidData,
                         "merge {} ('{}' with '{}'): '{}' is not in the vocabulary",
                         model.merges.size(), names[0], names[1], names[i]);
      }
      ids[i] = found->second;
    }
    const auto key =
        (static_cast<std::uint64_t>(ids[0]) << 32) | static_cast<std::uint64_t>(ids[1]);
    if (!pairs.insert(key).second) {
      return MakeError(ErrorCode::kInvalidData, "merge {} ('{}' with '{}') is listed twice",
                       model.merges.size(), names[0], names[1]);
    }
    model.merges.push_back({ids[0], ids[1], ids[2]});
  }
  return model;
}

}  // namespace fathom
