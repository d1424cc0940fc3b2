// TrailingBlock: recognizes a block of calls that begins in the middle of a line of the reasoning.
//
// Such a block may be a mention, or the calls that end the answer: models forget to end the
// reasoning. It is recognized as calls if it is whole and only blanks and </think> follow it. So it
// is held back until then, and becomes text as soon as that is impossible or the block is too long.
// Streams and whole answers agree, at the price of reasoning that arrives late.
#pragma once

#include <cstddef>
#include <string_view>

#include "chat/dsml_scanner.h"

namespace fathom::chat {

// Reads one such block. Time is linear in the text.
class TrailingBlock {
 public:
  // A longer block is text.
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10;

  enum class Verdict {
    kOpen,   // more text must be known
    kText,   // a mention
    kWhole,  // a whole block, and nothing follows it yet
  };

  // `text`: all text from the bracket of the block's opener on; each call passes more of the
  // block's text.
  Verdict Read(std::string_view text);

 private:
  // Reads the next tag or bracket, at the start of `rest`.
  Verdict ReadTag(std::string_view rest);

  std::size_t position_ = 0;  // bytes that have been read
  bool has_call_ = false;     // the opener of a call follows the block's opener
  bool is_closed_ = false;
  bool is_after_reasoning_ = false;
};

}  // namespace fathom::chat
