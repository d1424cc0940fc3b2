// The parts of a request that an answer of the Responses API needs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/responses/response_store.h"

namespace fathom {

// A tool under the client's name, where the model knows another name.
struct ClientTool {
  std::string name{};
  std::string space{};     // its namespace; may be empty
  bool is_custom = false;  // takes a text; the model knows a function with one parameter, "input"
};

using ClientTools = std::map<std::string, ClientTool, std::less<>>;  // by the model's name

struct ResponsesContext {
  JsonValue echo;  // an object: the fields that the response repeats
  ClientTools client_tools;
  bool summarizes = false;  // send reasoning as a summary (responses_format.cc)
  bool includes_encrypted_reasoning = false;
  bool store = true;
  std::vector<ResponseItem> input{};  // the conversation before the answer, if it is stored
};

}  // namespace fathom
