// ForcedCall: an answer that must call a tool, without constrained decoding: the model reasons
// freely, then the opening of the call is appended to its answer and it continues behind the
// opening. docs/spec/serving.md section 8.
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
  // The opening of a call of one tool.
  struct Opener {
    std::string text;
    std::vector<Token> tokens;
    bool operator==(const Opener&) const = default;
  };
  std::vector<Opener> openers;   // at least one; the model chooses
  bool after_reasoning = false;  // the prompt ends inside the reasoning
  Token think_close = 0;
  std::int64_t max_context = 0;  // the engine's context
};

// `tools`: the tools that may be called; not empty. Error (kUnsupported): the tokenizer has no
// </think>.
Result<ForcedCall> MakeForcedCall(std::span<const ToolSpec> tools, bool after_reasoning,
                                  const Tokenizer& tokenizer, std::int64_t max_context);

// Hands one of call.requests to the engine as the call wants it: forced, or as it is. `runner` and
// `call` must outlive what is returned.
//
// Of a forced call the stream is that of one request whose model wrote all of it: an event without
// a token tells the opening. The statistics are those of all requests together; the prompt is that
// of `request`, and what was given or chosen for the opening is not counted as generated. Errors:
// those of RequestRunner::Submit for the first request; those of later ones end their choice, and
// where the engine has no room for them they wait.
Result<std::unique_ptr<RunningRequest>> SubmitForced(RequestRunner& runner, const ApiCall& call,
                                                     Request request);

}  // namespace fathom
