// What an answer of the Responses API needs to know of its request.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/responses/response_store.h"

namespace fathom {

// A tool as the client calls it, where the model knows it as something else.
struct ClientTool {
  std::string name{};
  std::string space{};     // the namespace it stands in; may be empty
  bool is_custom = false;  // takes a text; the model knows a function with one parameter, "input"
};

using ClientTools = std::map<std::string, ClientTool, std::less<>>;  // by the model's name

struct ResponsesContext {
  JsonValue echo = "{}";  // the fields that the response repeats, as a JSON object
  ClientTools client_tools;
  bool summarizes = false;  // reasoning is told as a summary (responses_format.h)
  bool includes_encrypted_reasoning = false;
  bool store = true;
  std::vector<ResponseItem> input{};  // if it is stored: with what came before it
};

}  // namespace fathom
