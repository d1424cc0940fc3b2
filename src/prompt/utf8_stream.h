// UTF-8 for the prompt code: validity, writing, and repairing a stream that arrives in pieces.
#ifndef FATHOM_PROMPT_UTF8_STREAM_H_
#define FATHOM_PROMPT_UTF8_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

bool IsValidUtf8(std::string_view text);

// Appends one code point; a surrogate or a value above U+10FFFF becomes U+FFFD.
void AppendUtf8(std::uint32_t code, std::string* out);

// Turns bytes that arrive in any pieces into whole code points. What is not UTF-8 becomes U+FFFD,
// one for each maximal part of a sequence (the Unicode recommendation), so the output, taken
// together, depends only on the bytes and not on how they were cut. Holds back at most three bytes.
// One stream, one thread.
class Utf8Stream {
 public:
  // Appends to `out` all code points that `bytes` completes.
  void Feed(std::string_view bytes, std::string* out);

  // No more bytes: a held-back part becomes U+FFFD.
  void Finish(std::string* out);

 private:
  std::string held_;  // an incomplete sequence, valid so far
};

}  // namespace fathom

#endif  // FATHOM_PROMPT_UTF8_STREAM_H_
