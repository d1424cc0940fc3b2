// The tools of a request of the Responses API: flat functions, tools that take a text, and groups
// of both.
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

// The name by which the model knows a tool of a namespace: ns__name.
std::string FlatToolName(std::string_view space, std::string_view name);

// The parameter of a custom tool's function.
inline constexpr std::string_view kCustomInput = "input";

struct ResponsesTools {
  std::vector<ToolSpec> tools{};
  ClientTools client_tools{};
  std::string strict_field{};  // ChatCompletionRequest
};

// "tools" of the object; `source` is the text it was read from, as schemas keep their digits and
// the order of their keys. Tools that only OpenAI can run (web_search, ...) are left out: clients
// offer them to every server. Errors go to the reader.
ResponsesTools ReadResponsesTools(FieldReader& reader, std::string_view source,
                                  const RequestLimits& limits);

// "tool_choice".
ToolChoice ReadResponsesToolChoice(FieldReader& reader, const ResponsesTools& tools);

}  // namespace fathom
