// ApiCall: the body of a request -> what the engine is asked, and what it takes to answer.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/common/answer_collector.h"
#include "api/common/api_error.h"
#include "api/common/forced_call.h"
#include "api/common/generated_turn_store.h"
#include "api/common/generation_fields.h"
#include "base/tensor.h"
#include "chat/profile.h"
#include "chat/tool_schemas.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

struct Api;  // api/common/api.h
class ResponseStore;

// What is the same for all requests to one model. Constant; the tokenizer and the stores must
// outlive it.
struct ApiModel {
  const Tokenizer* tokenizer = nullptr;
  PromptProfile profile;
  Token bos = 0;
  std::string name;         // in answers to requests that name no model
  std::string fingerprint;  // "system_fingerprint" of answers
  RequestLimits limits;
  RequestDefaults defaults;
  ResponseStore* responses = nullptr;   // of the Responses API; null: nothing is kept
  GeneratedTurnStore* turns = nullptr;  // of chats; null: prompts depend on their requests alone
};

struct ApiCall {
  const Api* api = nullptr;
  std::string model;              // as the client called it
  std::vector<Request> requests;  // one per prompt; a chat has one
  AnswerOptions answers;          // of every choice
  // Of completions that repeat their prompts: what the answers to each request begin with.
  std::vector<std::string> echoes{};
  // Of a chat whose answers may be remembered (RememberTurns).
  std::optional<OpenConversation> conversation{};
  std::size_t n_replayed = 0;               // turns that the prompt has as they were written
  std::optional<ForcedCall> forced_call{};  // the answers must call a tool (SubmitForced)
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // in every chunk
  std::any context{};             // of the API alone
};

}  // namespace fathom
