// AnswerFormat: how one API tells the answers to a call, whole or as a stream of server-sent
// events.
#pragma once

#include <string>

#include "api/common/api_answer.h"
#include "api/common/api_error.h"

namespace fathom {

// One call; one thread. `answer` is the same one in all calls.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // The body of the response: JSON on one line. All choices have finished, without errors.
  virtual std::string Whole(const ApiAnswer& answer) = 0;

  // A stream: Begin, then Add for each piece, then End or Fail. Each appends whole events (sse.h).
  // Before the first piece, so that the usage of the prompt is known.
  virtual void Begin(const ApiAnswer& answer, std::string* out) = 0;
  virtual void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) = 0;
  // All choices have finished, without errors.
  virtual void End(const ApiAnswer& answer, std::string* out) = 0;
  // Something went wrong after the stream had begun; this ends it.
  virtual void Fail(const ApiAnswer& answer, const ApiError& error, std::string* out) = 0;
};

}  // namespace fathom
