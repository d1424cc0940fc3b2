// Server-sent events: the framing of streamed responses.
#pragma once

#include <string>
#include <string_view>

#include "json/json_value.h"

namespace fathom {

// Appends "data: {...}\n\n" to `out`.
void AppendSse(const JsonValue& json, std::string* out);
// Appends the same with "event: name" before it.
void AppendSse(std::string_view event, const JsonValue& json, std::string* out);

// Ends a stream of OpenAI's chat completions and completions.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
// A comment, which clients skip; shows proxies and clients that the connection is alive.
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

}  // namespace fathom
