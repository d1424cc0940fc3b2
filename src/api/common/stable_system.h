// Drops what Claude Code changes in its system prompt from request to request: a prompt that
// differs at its head shares no prefix with the one before. docs/spec/serving.md section 9.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Returns the text without
//   lines that begin with "x-anthropic-billing-header:", and the newlines after them;
//   markers <total_tokens>N tokens left</total_tokens>, and the newlines before them.
std::string StableSystemText(std::string_view text);

}  // namespace fathom
