// UTF-8 as this project accepts and repairs it. Accepts only well-formed sequences (no surrogates,
// nothing overlong, nothing above U+10FFFF). Every broken sequence becomes one U+FFFD, where a
// sequence is the longest prefix of a well-formed one ("maximal subpart"), as with Python's
// errors="replace".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The beginning of a text.
struct Utf8Sequence {
  enum class Kind {
    kComplete,    // one code point
    kBroken,      // bytes that no continuation completes
    kIncomplete,  // the whole text is the beginning of a code point
  };
  Kind kind;
  std::size_t n_bytes;  // 1 to 4
};

// text must not be empty.
Utf8Sequence FirstUtf8Sequence(std::string_view text);

// Returns the offset of the first byte that is not part of a complete code point; nullopt if text
// is valid.
std::optional<std::size_t> FindInvalidUtf8(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return !FindInvalidUtf8(text).has_value(); }

// Appends one code point; a surrogate or a value above U+10FFFF becomes U+FFFD.
void AppendUtf8(std::uint32_t code_point, std::string& text);

// Returns text with every broken sequence replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Returns a text of up to max_bytes unchanged; for a longer one, the whole code points in its first
// max_bytes, followed by "...".
std::string ShortenedUtf8(std::string_view text, std::size_t max_bytes);

// Limits names and paths that an error quotes: a client chooses them, and may send megabytes.
inline constexpr std::size_t kQuotedBytes = 100;

// Repairs a stream of bytes whose pieces may end inside a code point. Push and Finish append only
// valid UTF-8, and together they append ReplaceInvalidUtf8 of all bytes, however these are divided.
// Holds back at most 3 bytes. One stream, one thread at a time; allocates nothing itself.
class Utf8Stream {
 public:
  // Appends the text that is certain after these bytes.
  void Push(std::string_view bytes, std::string& text);
  // Ends the stream: an unfinished code point becomes U+FFFD. The object can then be used again.
  void Finish(std::string& text);
  // Returns the number of bytes held back, 0 to 3.
  std::size_t pending_bytes() const { return n_held_; }

 private:
  std::array<char, 4> held_ = {};  // the beginning of a code point
  std::size_t n_held_ = 0;
};

}  // namespace fathom
