// ApiAnswer: the events of all requests of a call -> its choices so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/common/answer_collector.h"
#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "api/common/token_sections.h"
#include "chat/answer_event.h"
#include "chat/call_ids.h"
#include "engine/token_stream.h"

namespace fathom {

struct ApiReply {
  int status = 200;  // HTTP status
  std::string body;  // JSON on one line
};

// The fields of a response besides its choices.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970, UTC
  std::string model;
  std::string fingerprint;
};

// Tokens of all prompts and choices.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;      // tokens of prompts, not computed for this request
  std::int64_t completion_tokens = 0;  // with reasoning
  std::int64_t reasoning_tokens = 0;
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_tokens = 0;  // accepted drafts
};

// The additions of one engine event to one choice.
struct AnswerPiece {
  std::size_t choice = 0;  // index in the response
  const StreamEvent& event;
  std::vector<AnswerEvent> events;  // in order; empty if all of it is held back
};

// One call; one thread. `call` and `model` must outlive it.
class ApiAnswer {
 public:
  // `created`: seconds since 1970, UTC.
  ApiAnswer(const ApiCall& call, const ApiModel& model, std::int64_t created,
            const RandomBits& random_bits);

  // True from the first event of call.requests[request] on, when its prompt's statistics are known.
  bool HasStarted(std::size_t request) const { return started_[request]; }
  void Start(std::size_t request, const RequestStats& stats);
  // An event of call.requests[request].
  AnswerPiece Add(std::size_t request, const StreamEvent& event);
  // The stream of call.requests[request] has ended.
  void End(std::size_t request, const RequestStats& stats);

  const ApiCall& call() const { return call_; }
  const ApiModel& model() const { return model_; }
  const ResponseHead& head() const { return head_; }
  const RandomBits& random_bits() const { return random_bits_; }
  // The choices of the first request, then of the next.
  std::span<const AnswerCollector> choices() const { return choices_; }
  // All choices of the request are finished, and the engine does not know that: it may be
  // cancelled. Whether and when it is makes no difference to the answer.
  bool WantsNoMore(std::size_t request) const;
  // The sections of that choice's tokens.
  const TokenSections& sections(std::size_t choice) const { return sections_[choice]; }
  // The usage so far. Drafts are counted when their request has ended.
  Usage usage() const;
  // The error of the first choice that has one.
  std::optional<ApiError> error() const;

 private:
  std::size_t FirstChoice(std::size_t request) const;
  std::span<const AnswerCollector> ChoicesOf(std::size_t request) const;

  const ApiCall& call_;
  const ApiModel& model_;
  const RandomBits random_bits_;
  const ResponseHead head_;
  std::vector<AnswerCollector> choices_;
  std::vector<bool> started_;            // by request
  std::vector<TokenSections> sections_;  // by choice
  Usage usage_;                          // tokens of prompts and drafts
};

}  // namespace fathom
