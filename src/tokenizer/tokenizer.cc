#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <bitset>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/git_lfs.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/vocabulary.h"

namespace fathom::tokenizer {
namespace {

struct AddedTokenMatch {
  std::size_t begin;  // offset in the searched text
  std::size_t end;
  Token token;
};

// Finds the added tokens (control tokens and markers) in text. Owns a copy of the texts; immutable
// after construction, movable.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::span<const AddedToken> tokens) {
    for (const AddedToken& token : tokens) {
      entries_.push_back({token.text, token.token});
      first_bytes_.set(static_cast<std::uint8_t>(token.text.front()));
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.text < b.text; });
  }

  // Returns the first match at or after `start`: leftmost, then longest. Reads no byte outside
  // text.
  //
  // Narrows the sorted entries at each step to the entries that agree with the text in one more
  // byte. An entry that ends here sorts before longer ones, so it is the first of the range.
  std::optional<AddedTokenMatch> FindNext(std::string_view text, std::size_t start) const {
    for (std::size_t begin = start; begin < text.size(); ++begin) {
      if (!first_bytes_.test(static_cast<std::uint8_t>(text[begin]))) continue;
      std::optional<AddedTokenMatch> longest;
      auto low = entries_.begin();
      auto high = entries_.end();
      for (std::size_t end = begin; low != high; ++end) {
        if (low->text.size() == end - begin) {
          longest = {begin, end, low->token};
          ++low;
        }
        if (end == text.size()) break;
        // Compares unsigned bytes, like std::string.
        const auto byte = static_cast<std::uint8_t>(text[end]);
        const auto byte_of = [depth = end - begin](const Entry& entry) {
          return static_cast<std::uint8_t>(entry.text[depth]);
        };
        low = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) < byte; });
        high = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) == byte; });
      }
      if (longest) return longest;
    }
    return std::nullopt;
  }

  // Returns the token with this text.
  std::optional<Token> Find(std::string_view text) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), text,
                         [](const Entry& entry, std::string_view key) { return entry.text < key; });
    if (found == entries_.end() || found->text != text) return std::nullopt;
    return found->token;
  }

 private:
  struct Entry {
    std::string text;
    Token token;
  };

  std::vector<Entry> entries_;  // sorted by text
  std::bitset<256> first_bytes_;
};

// Bytes [begin, end) of a prompt.
struct ByteRange {
  std::size_t begin;
  std::size_t end;
};

// A prompt as one text with its trusted bytes; neighbouring trusted spans are one range.
struct Prompt {
  std::string joined;         // the text of several spans
  std::string_view borrowed;  // the text of a single span
  std::vector<ByteRange> trusted;

  std::string_view text() const { return joined.empty() ? borrowed : joined; }
};

Prompt Join(std::span<const TextSpan> spans) {
  Prompt prompt;
  std::size_t n_bytes = 0;
  for (const TextSpan& span : spans) {
    const std::size_t begin = n_bytes;
    n_bytes += span.text.size();
    if (!span.trusted || span.text.empty()) continue;
    if (!prompt.trusted.empty() && prompt.trusted.back().end == begin) {
      prompt.trusted.back().end = n_bytes;
    } else {
      prompt.trusted.push_back({begin, n_bytes});
    }
  }
  if (spans.size() == 1) {
    prompt.borrowed = spans.front().text;
    return prompt;
  }
  prompt.joined.reserve(n_bytes);
  for (const TextSpan& span : spans) {
    prompt.joined += span.text;
  }
  return prompt;
}

Error WithFileName(std::string_view file_name, Error error) {
  error.message = fmt::format("{}: {}", file_name, error.message);
  return error;
}

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  BytePairEncoder encoder;  // refers to vocabulary
  PreTokenizer pretokenizer;
  AddedTokenFinder added_tokens;

  Impl(Vocabulary owned_vocabulary, const BpeModel& model, PreTokenizer owned_pretokenizer,
       std::span<const AddedToken> added)
      : vocabulary(std::move(owned_vocabulary)),
        encoder(vocabulary, model),
        pretokenizer(std::move(owned_pretokenizer)),
        added_tokens(added) {}

  // The state of one call of Encode.
  struct Scratch {
    const StopFunction& stop;
    std::vector<std::string_view> pieces{};
    BpeScratch bpe{};
  };

  Status EncodePlain(std::string_view text, Scratch& scratch, std::vector<Token>& tokens) const {
    if (text.empty()) return {};
    scratch.pieces.clear();
    Status status = pretokenizer.Split(text, scratch.pieces, scratch.stop);
    if (!status) return status;
    StopCheck check(scratch.stop);
    for (const std::string_view piece : scratch.pieces) {
      const auto n_done = static_cast<std::size_t>(piece.data() - text.data());
      if (check.IsStopped(n_done) || !encoder.Encode(piece, scratch.bpe, tokens, scratch.stop)) {
        return MakeError(ErrorCode::kUnavailable, "the text was not encoded as tokens: stopped");
      }
    }
    return {};
  }

  Result<std::vector<Token>> Encode(const Prompt& prompt, const StopFunction& stop) const {
    const std::string_view text = prompt.text();
    Scratch scratch = {.stop = stop};
    std::vector<Token> tokens;
    std::size_t done = 0;
    for (const ByteRange range : prompt.trusted) {
      const std::string_view searched = text.substr(0, range.end);
      std::optional<AddedTokenMatch> match = added_tokens.FindNext(searched, range.begin);
      for (; match; match = added_tokens.FindNext(searched, done)) {
        Status status = EncodePlain(text.substr(done, match->begin - done), scratch, tokens);
        if (!status) return Unexpected(status.error());
        tokens.push_back(match->token);
        done = match->end;
      }
    }
    Status status = EncodePlain(text.substr(done), scratch, tokens);
    if (!status) return Unexpected(status.error());
    return tokens;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::Load(const std::filesystem::path& path) {
  std::error_code ignored;  // Open reports errors of the path
  const std::filesystem::path file_path =
      std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  const Result<std::string> json = ReadFile(file_path, kMostTableBytes);
  if (!json) return Unexpected(json.error());
  return Parse(*json, file_path.string());
}

Result<Tokenizer> Tokenizer::Parse(std::string_view json, std::string_view file_name) {
  if (IsGitLfsPointer(json)) {
    return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, kGitLfsPointer);
  }
  const Result<TokenizerFile> file = ParseTokenizerFile(json, file_name);
  if (!file) return Unexpected(file.error());
  Result<Vocabulary> vocabulary = Vocabulary::Build(*file);
  if (!vocabulary) return Unexpected(WithFileName(file_name, vocabulary.error()));
  const Result<BpeModel> model = ResolveMerges(*file);
  if (!model) return Unexpected(WithFileName(file_name, model.error()));
  Result<PreTokenizer> pretokenizer = PreTokenizer::Create(file->patterns);
  if (!pretokenizer) return Unexpected(WithFileName(file_name, pretokenizer.error()));
  return Tokenizer(std::make_unique<const Impl>(std::move(*vocabulary), *model,
                                                std::move(*pretokenizer), file->added_tokens));
}

Result<std::vector<Token>> Tokenizer::Encode(std::string_view text, SpecialTokens mode,
                                             const StopFunction& stop) const {
  const TextSpan span = {text, mode == SpecialTokens::kParse};
  return Encode(std::span(&span, 1), stop);
}

Result<std::vector<Token>> Tokenizer::Encode(std::span<const TextSpan> spans,
                                             const StopFunction& stop) const {
  const Prompt prompt = Join(spans);
  const std::string_view text = prompt.text();
  if (text.size() > BytePairEncoder::kMaxPieceBytes) {
    return MakeError(ErrorCode::kInvalidArgument, "text: expected at most {} bytes, found {}",
                     BytePairEncoder::kMaxPieceBytes, text.size());
  }
  const std::optional<std::size_t> invalid = FindInvalidUtf8(text);
  if (invalid) {
    return MakeError(ErrorCode::kInvalidArgument, "text: expected UTF-8, found byte 0x{:02X} at {}",
                     static_cast<std::uint8_t>(text[*invalid]), *invalid);
  }
  return impl_->Encode(prompt, stop);
}

std::string_view Tokenizer::TokenBytes(Token token) const { return impl_->vocabulary.Bytes(token); }

std::string Tokenizer::TokenToText(Token token) const {
  return ReplaceInvalidUtf8(TokenBytes(token));
}

Result<std::string> Tokenizer::Decode(std::span<const Token> tokens) const {
  std::string bytes;
  for (const Token token : tokens) {
    if (token < 0 || token >= vocab_size()) {
      return MakeError(ErrorCode::kInvalidArgument, "token id: expected 0 to {}, found {}",
                       vocab_size() - 1, token);
    }
    bytes += TokenBytes(token);
  }
  return bytes;
}

std::int64_t Tokenizer::LeastTokens(std::size_t n_bytes) const {
  const std::size_t longest = std::max<std::size_t>(impl_->vocabulary.longest(), 1);
  return static_cast<std::int64_t>(n_bytes / longest + (n_bytes % longest == 0 ? 0 : 1));
}

std::int64_t Tokenizer::vocab_size() const { return impl_->vocabulary.size(); }

std::optional<Token> Tokenizer::Find(std::string_view text) const {
  return impl_->added_tokens.Find(text);
}

bool Tokenizer::IsSpecial(Token token) const { return impl_->vocabulary.IsSpecial(token); }

}  // namespace fathom::tokenizer
