// The body of POST /v1/responses. docs/spec/serving.md section 10.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/chat_call.h"
#include "api/responses/response_store.h"
#include "base/result.h"
#include "json/json_value.h"

namespace fathom::api {

// The kinds of tools, by the items for their calls. For the model, all of them are functions.
enum class ToolKind {
  kFunction,
  kCustom,      // takes a text, the one parameter "input"
  kLocalShell,  // the parameters are the "action" of the call
  kShell,       // the parameters are the "action" of the call, too
  kApplyPatch,  // the parameters are the "operation" of the call
  kToolSearch,  // the parameters are the "arguments" of the call, as an object
};

// A tool under the client's name, if it is not a function or the model knows another name.
struct ClientTool {
  std::string name{};
  std::string space{};  // its namespace; may be empty
  ToolKind kind = ToolKind::kFunction;
};

using ClientTools = std::map<std::string, ClientTool, std::less<>>;  // by the model's name

// The parts of a request that its answer needs.
struct ResponsesContext {
  JsonValue echo;  // an object: the fields that the response repeats
  ClientTools client_tools;
  bool summarizes = false;  // send reasoning as a summary (responses_format.cc)
  bool includes_encrypted_reasoning = false;
  bool store = true;
  std::vector<ResponseItem> input{};  // the conversation before the answer, if it is stored
};

struct ResponsesRequest {
  ChatCompletionRequest chat;
  ResponsesContext context;
};

// Returns the names that "include" may contain.
std::span<const std::string_view> KnownIncludes();

// Errors name the field: kInvalidArgument if it is wrong or refers to an item that is not in
// `store` (which may be null), kUnsupported if this build cannot do it. Unknown fields are ignored.
Result<ResponsesRequest> ParseResponsesRequest(const ApiBody& body, const RequestLimits& limits,
                                               const RequestDefaults& defaults,
                                               ResponseStore* store);

}  // namespace fathom::api
