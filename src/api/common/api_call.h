// ApiCall: the engine's requests for a body, and the data that is needed to answer them.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/common/answer_collector.h"
#include "api/common/answer_constraint.h"
#include "api/common/api_error.h"
#include "api/common/generated_turn_store.h"
#include "api/common/generation_fields.h"
#include "base/tensor.h"
#include "chat/profile.h"
#include "chat/tool_schemas.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom::api {

struct Api;  // api/common/api.h
class ResponseStore;

struct ConstraintMemoryUse {
  std::int64_t used = 0;  // bytes
  std::int64_t limit = 0;
};

// Shared by all requests to one model. Constant; the tokenizer and the stores must outlive it.
struct ApiModel {
  const Tokenizer* tokenizer = nullptr;
  PromptProfile profile;
  Token bos = 0;
  Token eos = 0;
  std::string name;         // the model name in answers to requests that name none
  std::string fingerprint;  // "system_fingerprint" of answers
  // Names the client, for example by its key. Models with different salts share no cached blocks
  // (Request::cache_salt), whatever salts the requests contain.
  std::string cache_salt{};
  RequestLimits limits;
  RequestDefaults defaults;
  // Compiles the constraints of requests; empty: requests with a constraint are refused.
  CompileConstraint compile_constraint{};
  // The memory of constraints, for metrics; may be empty.
  std::function<ConstraintMemoryUse()> constraint_memory{};
  ResponseStore* responses = nullptr;   // for the Responses API; null: nothing is stored
  GeneratedTurnStore* turns = nullptr;  // for chats; null: prompts depend on their requests alone
};

struct ApiCall {
  const Api* api = nullptr;
  std::string model;  // the name that the client used
  // One per prompt; a chat has one. None: the client asked only whether the model exists, and the
  // answer has no choices.
  std::vector<Request> requests;
  // The error that the stream reports instead of an answer. Then nothing is submitted, and the one
  // request has no prompt. Only if `stream`.
  std::optional<ApiError> refusal{};
  AnswerOptions answers;  // options for every choice
  // Set for a chat whose answers may be stored (RememberTurns).
  std::optional<OpenConversation> conversation{};
  std::size_t n_replayed = 0;  // number of earlier turns that are replayed token by token
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // report the usage in every chunk
  // Paths in the request, "a.b, c", of parts of a form or a strict tool that are not enforced;
  // may be empty. Plain ASCII.
  std::string relaxed{};
  double compile_seconds = 0;  // time of compiling the constraint of the answers, if there is one
  std::any context{};          // used only by the API
};

}  // namespace fathom::api
