// The tools of a request of the Responses API: functions, tools that take a text, and namespaces of
// both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/common/generation_fields.h"
#include "api/openai/chat_completion_request.h"
#include "api/responses/responses_context.h"
#include "chat/chat.h"
#include "json/field_reader.h"

namespace fathom {

// Returns the model's name of a tool in a namespace: ns__name.
std::string FlatToolName(std::string_view space, std::string_view name);

// The parameter of a custom tool's function.
inline constexpr std::string_view kCustomInput = "input";

struct ResponsesTools {
  std::vector<ToolSpec> tools{};
  ClientTools client_tools{};
  std::string strict_field{};  // ChatCompletionRequest
};

// Reads "tools" of the object. `source` is the text that it was read from: schemas keep their
// digits and the order of their keys. Tools that only OpenAI can run (web_search, ...) are dropped,
// because clients offer them to every server. Errors go to the reader.
ResponsesTools ReadResponsesTools(FieldReader& reader, std::string_view source,
                                  const RequestLimits& limits);

// Reads "tool_choice".
ToolChoice ReadResponsesToolChoice(FieldReader& reader, const ResponsesTools& tools);

}  // namespace fathom
