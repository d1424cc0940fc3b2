// Tokenizer: text to token ids and back, as tokenizer.json of the checkpoint defines it.
//
// Encoding finds the added tokens first (docs/spec/tokenizer.md 4); what lies between two of them
// is cut into pieces (pretokenizer.h), and each piece is byte-pair encoded (bpe.h). Nothing is
// added: begin and end of a sequence are the business of whoever builds the prompt.
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
#include "base/tensor.h"

namespace fathom {

enum class SpecialTokens {
  kParse,      // the text of an added token becomes that token: leftmost, then longest
  kPlainText,  // it is text like any other
};

// A part of a prompt. Only bytes that our own template wrote are trusted; text of a client is not,
// so that it cannot forge control tokens (docs/spec/encoding.md 8).
struct TextSpan {
  std::string_view text;
  bool trusted;
};

// Owns all its tables; movable; immutable, so all methods may be called from many threads.
class Tokenizer {
 public:
  // path: a tokenizer.json, or a directory that holds one.
  static Result<Tokenizer> Load(const std::filesystem::path& path);
  // json: the content of a tokenizer.json; file_name is used in messages only.
  static Result<Tokenizer> Parse(std::string_view json, std::string_view file_name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Errors: text that is not valid UTF-8 (the message names the byte; see ReplaceInvalidUtf8 of
  // utf8.h), or longer than 2 GiB.
  Result<std::vector<Token>> Encode(std::string_view text, SpecialTokens mode) const;
  // The spans are one text: pieces and characters may reach across their borders. An added token is
  // recognised only where all its bytes are trusted. Offsets in errors count from the first span.
  Result<std::vector<Token>> Encode(std::span<const TextSpan> spans) const;

  // The bytes of a token; empty if there is no such token. Often not valid UTF-8 on its own. Valid
  // as long as the tokenizer lives, also after it is moved.
  std::string_view TokenBytes(Token token) const;
  // The same for display: always valid UTF-8, U+FFFD for bytes of a partial character.
  std::string TokenToText(Token token) const;
  // The bytes of all tokens. Error: an id outside [0, vocab_size()). An id in it that has no token
  // gives no bytes.
  Result<std::string> Decode(std::span<const Token> tokens) const;

  // The highest id + 1. The model may have more rows: their tokens have no bytes.
  std::int64_t vocab_size() const;
  // The added token with exactly this text.
  std::optional<Token> Find(std::string_view text) const;
  // Whether tokenizer.json flags the token as special. Not all control tokens are.
  bool IsSpecial(Token token) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace fathom
