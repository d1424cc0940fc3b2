// Removes the changing parts from Claude Code's system texts.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Drops the parts of Claude Code's system texts that change from request to request: two prompts
// share only the text before their first difference. docs/spec/serving.md section 9.
//
// Returns the text without
//   lines that begin with "x-anthropic-billing-header:", and the newlines after them;
//   markers <total_tokens>N tokens left</total_tokens>, and the newlines before them.
std::string StableSystemText(std::string_view text);

}  // namespace fathom
