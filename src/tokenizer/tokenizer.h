// Tokenizer: converts text to token ids and back, as defined by tokenizer.json of the checkpoint.
//
// Encoding finds the added tokens first (docs/spec/tokenizer.md 4); the text between two of them is
// split into pieces (pretokenizer.h), and each piece is byte-pair encoded (bpe.h). Nothing is
// added: the caller adds begin and end tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop_check.h"
#include "base/tensor.h"

namespace fathom::tokenizer {

enum class SpecialTokens {
  kParse,      // the text of an added token becomes that token: leftmost, then longest
  kPlainText,  // the text of an added token is ordinary text
};

// A part of a prompt. Only bytes of our own template are trusted. A client's text is not trusted,
// so that it cannot forge control tokens (docs/spec/encoding.md 8).
struct TextSpan {
  std::string_view text;
  bool trusted;
};

// Owns all its tables; movable; immutable, so many threads may call all methods.
class Tokenizer {
 public:
  // path: a tokenizer.json, or a directory that contains one.
  static Result<Tokenizer> Load(const std::filesystem::path& path);
  // json: the content of a tokenizer.json; file_name is used only in messages.
  static Result<Tokenizer> Parse(std::string_view json, std::string_view file_name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Errors: text that is not valid UTF-8 (the message names the byte; see ReplaceInvalidUtf8 in
  // utf8.h), or longer than 2 GiB; `stop`, which is called from time to time, returned true
  // (kUnavailable). Takes up to 24 bytes of memory per byte of text.
  Result<std::vector<Token>> Encode(std::string_view text, SpecialTokens mode,
                                    const StopFunction& stop = {}) const;
  // Encodes the spans as one text: pieces and characters may cross their borders. An added token is
  // recognized only if all its bytes are trusted. Offsets in errors count from the first span.
  Result<std::vector<Token>> Encode(std::span<const TextSpan> spans,
                                    const StopFunction& stop = {}) const;

  // Returns the bytes of a token; empty if there is no such token. Often not valid UTF-8 by itself.
  // Valid during the lifetime of the tokenizer, even after a move.
  std::string_view TokenBytes(Token token) const;
  // Returns the text of a token for display: always valid UTF-8, U+FFFD for bytes of a partial
  // character.
  std::string TokenToText(Token token) const;
  // Returns the bytes of all tokens. Error: an id outside [0, vocab_size()). An id in this range
  // without a token yields no bytes.
  Result<std::string> Decode(std::span<const Token> tokens) const;

  // Returns the least number of tokens that a text of n_bytes can have.
  std::int64_t LeastTokens(std::size_t n_bytes) const;
  // Returns the highest id + 1. The model may have more rows: their tokens have no bytes.
  std::int64_t vocab_size() const;
  // Returns the added token with exactly this text.
  std::optional<Token> Find(std::string_view text) const;
  // Returns true if tokenizer.json flags the token as special. Not all control tokens are flagged.
  bool IsSpecial(Token token) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace fathom::tokenizer
