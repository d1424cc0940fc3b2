// ApiAnswer: the events of all requests of a call -> its response.
#ifndef FATHOM_SERVER_API_ANSWER_H_
#define FATHOM_SERVER_API_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/token_stream.h"
#include "prompt/call_ids.h"
#include "server/answer_collector.h"
#include "server/api_call.h"
#include "server/response_json.h"

namespace fathom {

struct ApiReply {
  int status = 200;  // of HTTP
  std::string body;  // JSON on one line
};

// One call; one thread. `call` and `model` must outlive it.
class ApiAnswer {
 public:
  ApiAnswer(const ApiCall& call, const ApiModel& model, const RandomBits& random_bits);

  // An event of call.requests[request].
  void Add(std::size_t request, const StreamEvent& event);
  // The stream of call.requests[request] has ended.
  void End(std::size_t request, const RequestStats& stats);

  // Of what has ended so far.
  const Usage& usage() const { return usage_; }

  // Call once all requests have ended. An error of one choice is the error of the call.
  // `created`: seconds since 1970, UTC.
  ApiReply Reply(std::int64_t created) const;

 private:
  std::size_t FirstChoice(std::size_t request) const;

  const ApiCall& call_;
  const ApiModel& model_;
  const std::string id_;
  std::vector<AnswerCollector> choices_;  // those of the first request, then of the next
  Usage usage_;
};

}  // namespace fathom

#endif  // FATHOM_SERVER_API_ANSWER_H_
