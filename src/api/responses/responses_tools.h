// Reads the tools of a request of the Responses API: functions, tools whose input is a text, and
// namespaces of both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/common/generation_fields.h"
#include "api/responses/responses_request.h"
#include "chat/chat.h"
#include "json/field_reader.h"

namespace fathom::api {

// Returns the model's name for a tool in a namespace: ns__name.
std::string FlatToolName(std::string_view space, std::string_view name);

struct ResponsesTools {
  std::vector<ToolSpec> tools{};
  ClientTools client_tools{};
  std::string relaxed{};  // formats that are not enforced; see ApiCall::relaxed
  std::string dropped{};  // the path of the first tool that was dropped
};

// Reads "tools" of the object. `source` is the text from which it was read: schemas keep their
// digits and the order of their keys. Errors go to the reader.
//
// The tools that OpenAI has defined and the client runs (local_shell, shell, apply_patch) become
// functions with their published parameters. Tools that OpenAI runs are refused, except the tools
// that agents offer to every server (web_search, image_generation, tool_search), which are dropped.
// A tool_search that the client executes is a function; with it, tools that ask for deferral are
// deferred (ToolSpec::is_deferred).
ResponsesTools ReadResponsesTools(FieldReader& reader, std::string_view source,
                                  const RequestLimits& limits);

// Reads "tool_choice".
ToolChoice ReadResponsesToolChoice(FieldReader& reader, const ResponsesTools& tools);

}  // namespace fathom::api
