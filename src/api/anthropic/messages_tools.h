// The tools of a request to Anthropic's API. docs/spec/serving.md section 9.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/chat_call.h"
#include "api/common/generation_fields.h"
#include "chat/chat.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::api {

struct MessagesTools {
  std::vector<ToolSpec> tools{};
  // Tools that were dropped, by name, with the error for a request that demands one.
  std::map<std::string, std::string, std::less<>> dropped{};
  std::string only_dropped{};  // the error if there are no others; empty: none was dropped
};

// Reads "tools" of the body that `reader` reads; `body` is its text. Errors go to the reader.
//
// The tools that Anthropic has defined and the client runs (bash, text editor, memory, computer)
// become functions with their published parameters. Tools that Anthropic runs are dropped: agents
// offer them to every server. A search of tools is dropped with the deferral of all tools, which
// otherwise are hidden until the client has found them (ToolSpec::is_deferred).
MessagesTools ReadMessagesTools(FieldReader& reader, const RequestLimits& limits,
                                std::string_view body);

// Returns the function of a tool of type custom. Its fields have been checked; in a history they
// may be wrong. `path` names the tool.
ToolSpec MessagesFunction(const JsonValue& tool, std::string_view body, const std::string& path);

// Reads "tool_choice". `tools`: the tools of the request and of its messages. Errors: they cannot
// satisfy the choice; all tools were dropped.
ToolChoice ReadMessagesToolChoice(FieldReader& reader, const MessagesTools& tools, bool* parallel);

}  // namespace fathom::api
