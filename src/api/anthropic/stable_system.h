// System texts of Claude Code without what it changes from request to request.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Drops what Claude Code changes in its system texts from request to request: a prompt shares with
// the one before only what stands before the first difference. docs/spec/serving.md section 9.
//
// Returns the text without
//   lines that begin with "x-anthropic-billing-header:", and the newlines after them;
//   markers <total_tokens>N tokens left</total_tokens>, and the newlines before them.
std::string StableSystemText(std::string_view text);

}  // namespace fathom
