// Recognises one tag of an answer: think tags and the tool-call markup (DSML), in the spellings
// that models produce. docs/spec/encoding.md section 9.2.
//
//   <think> </think>
//   <BAR DSML BAR tool_calls>                       also function_calls and calls
//   <BAR DSML BAR invoke name="...">
//   <BAR DSML BAR parameter name="..." string="true|false">    the last attribute may be missing
//   and the closers, with a slash after the bracket
//
// BAR is the full-width bar (U+FF5C), once as the format has it, or doubled, ASCII or missing. The
// plain forms without DSML are recognised too, and told apart.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace fathom {

// A tag longer than this is text: a bound on what a stream must hold back and look at again.
inline constexpr std::size_t kMaxTagBytes = 512;

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
  bool is_dsml = false;     // false: think tags and the plain forms
  std::string_view name{};  // openers of invoke (never empty) and parameter; points into the text
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

// What stands at the start of `text`. Looks at no more than kMaxTagBytes.
TagScan ScanTag(std::string_view text);

// Whether a text for which ScanTag says kIncomplete could as well be plain text that happens to end
// there: `<`, `</` or the beginning of a plain form.
bool IsPlainTail(std::string_view text);

}  // namespace fathom
