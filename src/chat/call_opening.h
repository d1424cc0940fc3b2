// Recognizes the beginning of a tool call in an answer. docs/spec/encoding.md section 9.2.
//
//   <tool_calls>  junk  <invoke name="...">  junk  <parameter ...> or </invoke>
//   <tool_calls>  junk  <invoke name="...">  { a JSON object in place of parameters
//                       <invoke name="...">  <parameter ...> or </invoke> or {
//
// A tag alone opens nothing, because a text may mention one. Blanks may appear between the tags; in
// a DSML block also other text without such tags, which is skipped.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "chat/dsml_scanner.h"
#include "chat/tool_schemas.h"

namespace fathom::chat {

struct CallOpening {
  enum class Kind {
    kNone,        // the tag is text
    kCall,        // a call, whose parameters or end follow
    kBody,        // a call, whose JSON object follows
    kEmptyBlock,  // a block without calls
    kIncomplete,  // the text is a proper prefix of an opening
  };
  Kind kind = Kind::kNone;
  // The name of the tool; a view into the text. With kIncomplete: "" unless the text contains the
  // opener of a call in a block.
  std::string_view name{};
  bool in_block = false;  // a block is open
  std::size_t bytes = 0;  // up to the tag or the brace that follows the openers
};

// The conditions for an opening.
struct OpeningRules {
  const std::optional<ToolSchemas>& tools;  // AnswerParserOptions::tools
  bool in_block = false;                    // the text continues a block
  bool skips_junk = true;
  bool is_given = false;  // the prompt ended with the opener of the call: any text may follow
  bool is_over = false;   // the text has ended
};

// Returns true if the tag of a call may open one: in plain markup only for a tool of the request.
bool MayBeInvoke(const Tag& tag, const std::optional<ToolSchemas>& tools);

// Reads the opening at the start of `text`, which is `tag`, the opener of a block or a call. Reads
// at most kMaxOpeningBytes.
CallOpening ReadCallOpening(std::string_view text, const Tag& tag, const OpeningRules& rules);

inline constexpr std::size_t kMaxJunkBytes = 512;
inline constexpr std::size_t kMaxOpeningBytes = 3 * kMaxTagBytes + 2 * kMaxJunkBytes;

}  // namespace fathom::chat
