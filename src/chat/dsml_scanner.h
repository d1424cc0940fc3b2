// Recognizes one tag of an answer: think tags and tool-call markup (DSML), in the spellings that
// models produce. docs/spec/encoding.md section 9.2.
//
//   <think> </think>
//   <BAR DSML BAR tool_calls>                       also function_calls and calls
//   <BAR DSML BAR invoke name="...">
//   <BAR DSML BAR parameter name="..." string="true|false">    the last attribute may be missing
//   and the closers, with a slash after the bracket
//
// BAR is the full-width bar (U+FF5C): once as in the format, or doubled, ASCII or missing. The
// plain forms without DSML are recognized too, and distinguished. Other attributes are skipped;
// values may have single quotes, and blanks around their equals sign.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace fathom::chat {

// A longer tag is text; this limits the text that a stream holds back and scans again. A name may
// have 128 code points of four bytes (docs/spec/constrained.md 2.5).
inline constexpr std::size_t kMaxTagBytes = 640;

// The blanks that may appear between tags.
inline constexpr std::string_view kTagBlanks = " \t\r\n";

enum class TagKind {
  kThinkOpen,
  kThinkClose,
  kBlockOpen,
  kBlockClose,
  kInvokeOpen,
  kInvokeClose,
  kParameterOpen,
  kParameterClose,
};

struct Tag {
  TagKind kind = TagKind::kThinkOpen;
  bool is_dsml = false;  // false: think tags and the plain forms
  std::string_view
      name{};  // for openers of invoke (never empty) and parameter; a view into the text
  std::optional<bool> is_string{};  // parameter: the attribute `string`
  std::size_t bytes = 0;            // length of the tag
};

struct TagScan {
  enum class Outcome {
    kTag,
    kNoTag,
    kIncomplete,  // the whole text is a proper prefix of some tag
  };
  Outcome outcome = Outcome::kNoTag;
  Tag tag{};
};

// Scans the start of `text`. Reads at most kMaxTagBytes.
TagScan ScanTag(std::string_view text);

// Returns true if a text that begins like a tag has the token ｜DSML｜ after its bracket. Then it
// is markup, whole or cut, because no other text contains that token. Other spellings may be text
// that ends there.
bool BeginsWithDsmlToken(std::string_view text);

// Returns true if a text for which ScanTag returns kIncomplete cannot become DSML markup any more:
// it is the beginning of a plain form or of a think tag.
bool IsPlainTail(std::string_view text);

}  // namespace fathom::chat
