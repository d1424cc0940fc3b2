// ForcedCall: an answer that must call a tool, without constrained decoding: the model thinks
// freely, then the opening of the call is appended, and the model continues behind it.
// docs/spec/serving.md section 8.
//
//   prompt | reasoning </think> | \n\n<tool_calls>\n<invoke name="NAME">\n | parameters ...
//            one request          given; which NAME: requests of a token     one request
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/common/request_runner.h"
#include "base/result.h"
#include "base/tensor.h"
#include "chat/chat.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

struct ApiCall;  // api/common/api_call.h

struct ForcedCall {
  // The beginning of a call of one tool.
  struct Opener {
    std::string text;
    std::vector<Token> tokens;
    bool operator==(const Opener&) const = default;
  };
  std::vector<Opener> openers;   // at least one; the model chooses
  bool after_reasoning = false;  // the prompt ends inside the reasoning
  Token think_close = 0;
  std::int64_t max_context = 0;  // of the engine, in tokens
};

// `tools`: the tools that may be called; not empty. Error (kUnsupported): the tokenizer has no
// </think>.
Result<ForcedCall> MakeForcedCall(std::span<const ToolSpec> tools, bool after_reasoning,
                                  const Tokenizer& tokenizer, std::int64_t max_context);

// Submits one of call.requests, forced if the call wants it. `runner` and `call` must outlive the
// result.
//
// The stream of a forced call looks like one request whose model wrote everything: an event without
// a token carries the opening. The statistics sum all requests; the prompt is that of `request`,
// and tokens of the opening do not count as generated. Errors: those of RequestRunner::Submit for
// the first request. Errors of later requests end their choice; a later request waits while the
// engine has no room.
Result<std::unique_ptr<RunningRequest>> SubmitForced(RequestRunner& runner, const ApiCall& call,
                                                     Request request);

}  // namespace fathom
