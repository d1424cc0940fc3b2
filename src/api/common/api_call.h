// ApiCall: the requests for the engine that a body asks for, and what is needed to answer them.
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

namespace fathom {

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
  // Names the client, for example by its key. Models of different salts share no cached blocks
  // (Request::cache_salt), whatever salts the requests bring.
  std::string cache_salt{};
  RequestLimits limits;
  RequestDefaults defaults;
  // Compiles the constraints of requests; empty: requests that need one are refused.
  CompileConstraint compile_constraint{};
  // The memory of constraints, for metrics; may be empty.
  std::function<ConstraintMemoryUse()> constraint_memory{};
  ResponseStore* responses = nullptr;   // for the Responses API; null: nothing is stored
  GeneratedTurnStore* turns = nullptr;  // for chats; null: prompts depend on their requests alone
};

struct ApiCall {
  const Api* api = nullptr;
  std::string model;  // the name that the client used
  // One per prompt; a chat has one. None: the client asked only whether the model is there, and the
  // answer has no choices.
  std::vector<Request> requests;
  // The error that the stream tells in place of an answer; then nothing is submitted, and the one
  // request has no prompt. Only if `stream`.
  std::optional<ApiError> refusal{};
  AnswerOptions answers;  // for every choice
  // Set for a chat whose answers may be remembered (RememberTurns).
  std::optional<OpenConversation> conversation{};
  std::size_t n_replayed = 0;  // earlier turns replayed token by token
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage in every chunk
  // Paths in the request, "a.b, c", of parts of a form or a strict tool that are not enforced;
  // may be empty. Plain ASCII.
  std::string relaxed{};
  double compile_seconds = 0;  // of the constraint of the answers, if there is one
  std::any context{};          // used by the API alone
};

}  // namespace fathom
