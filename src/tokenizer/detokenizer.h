// Detokenizer: a stream of tokens to a stream of valid UTF-8 (docs/spec/tokenizer.md 6).
#pragma once

#include <cstddef>
#include <string>

#include "base/tensor.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// One generation, one thread at a time; the tokenizer must outlive it. Allocates nothing: text
// that the caller clears and reuses grows to its final size once.
//
// Push and Finish append valid UTF-8, together ReplaceInvalidUtf8 of the bytes of all tokens. At
// most 3 bytes are held back, while they are the beginning of a character.
class Detokenizer {
 public:
  enum class Special {
    kKeep,  // tokens that IsSpecial give their text
    kSkip,  // they give nothing
  };

  explicit Detokenizer(const Tokenizer& tokenizer, Special special = Special::kKeep)
      : tokenizer_(&tokenizer), special_(special) {}

  // Appends what is known after this token. An id without token gives nothing.
  void Push(Token token, std::string& text) {
    if (special_ == Special::kSkip && tokenizer_->IsSpecial(token)) {
      return;
    }
    stream_.Push(tokenizer_->TokenBytes(token), text);
  }

  // Ends the stream: an unfinished character becomes U+FFFD. The object is then as new.
  void Finish(std::string& text) { stream_.Finish(text); }

  // Bytes held back, 0 to 3.
  std::size_t pending_bytes() const { return stream_.pending_bytes(); }

 private:
  const Tokenizer* tokenizer_;
  Special special_;
  Utf8Stream stream_;
};

}  // namespace fathom
