// ApiAnswer: collects the events of all requests of a call into its choices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/answer_collector.h"
#include "api/common/api_call.h"
#include "api/common/api_error.h"
#include "chat/answer_event.h"
#include "chat/call_ids.h"
#include "engine/token_stream.h"

namespace fathom::api {

struct ApiReply {
  int status = 200;  // HTTP status
  std::string body;  // JSON on one line, or of another type
  std::string_view content_type = "application/json";
};

// The fields of a response besides its choices.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970, UTC
  std::string model;
  std::string fingerprint;
};

// Sums over all prompts and choices.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // tokens of the prompts that were not computed for this request
  std::int64_t completion_tokens = 0;  // includes the reasoning
  std::int64_t reasoning_tokens = 0;
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_tokens = 0;  // accepted drafted tokens
};

// Sections of the engine's time; each is the longest among the requests that have ended.
struct AnswerTimes {
  double queue_seconds = 0;
  double prefill_seconds = 0;  // from the first step to the first token
  double decode_seconds = 0;   // from the first token to the end
};

// The additions of one engine event to one choice.
struct AnswerPiece {
  std::size_t choice = 0;  // index in the response
  const StreamEvent& event;
  std::vector<AnswerEvent> events;  // in order; empty if everything is held back
};

// Serves one call in one thread. `call` and `model` must outlive the answer.
class ApiAnswer {
 public:
  // `created`: seconds since 1970, UTC.
  ApiAnswer(const ApiCall& call, const ApiModel& model, std::int64_t created,
            const RandomBits& random_bits);

  // Records the statistics of the prompt of call.requests[request], when its first event has come.
  bool HasStarted(std::size_t request) const { return started_[request]; }
  void Start(std::size_t request, const RequestStats& stats);
  // Adds an event of call.requests[request].
  AnswerPiece Add(std::size_t request, const StreamEvent& event);
  // Records that the stream of call.requests[request] has ended.
  void End(std::size_t request, const RequestStats& stats);

  const ApiCall& call() const { return call_; }
  const ApiModel& model() const { return model_; }
  const ResponseHead& head() const { return head_; }
  const RandomBits& random_bits() const { return random_bits_; }
  // The choices of the first request come first, then the choices of the next.
  std::span<const AnswerCollector> choices() const { return choices_; }
  // Returns true if all choices of the request are finished and the engine does not know it. The
  // request may be cancelled; the answer does not depend on it.
  bool WantsNoMore(std::size_t request) const;
  // Returns the log probabilities of call().requests[request].prompt, except of its first token;
  // empty before the request's first event, or if they were not requested.
  std::span<const TokenLogprobs> prompt_logprobs(std::size_t request) const;
  // Returns the sections of the choice's tokens.
  const TokenSections& sections(std::size_t choice) const { return sections_[choice]; }
  // Returns the tokens of all prompts, which are known before the first event.
  std::int64_t n_prompt() const;
  // Returns the usage so far. Prompts count from Start on. Drafts count for requests that have
  // ended.
  Usage usage() const;
  const AnswerTimes& times() const { return times_; }
  // Returns whether the context was full before the choice had all tokens that the request allows.
  bool IsCutByContext(std::size_t choice) const;
  // Returns the error of the first choice that has one.
  std::optional<ApiError> error() const;

 private:
  std::size_t FirstChoice(std::size_t request) const;
  std::span<const AnswerCollector> RequestChoices(std::size_t request) const;

  const ApiCall& call_;
  const ApiModel& model_;
  const RandomBits random_bits_;
  const ResponseHead head_;
  std::vector<AnswerCollector> choices_;
  std::vector<bool> started_;                                                       // by request
  std::vector<std::shared_ptr<const std::vector<TokenLogprobs>>> prompt_logprobs_;  // by request
  std::vector<TokenSections> sections_;                                             // by choice
  Usage usage_;  // prompts and drafts
  AnswerTimes times_;
};

}  // namespace fathom::api
