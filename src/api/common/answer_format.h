// AnswerFormat: writes the answers to a call in the format of one API, whole or as a stream, in
// most APIs of server-sent events. Frames such events.
#pragma once

#include <string>
#include <string_view>

#include "api/common/api_answer.h"
#include "api/common/api_error.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {

// A comment, which clients ignore.
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

// Serves one call in one thread. All calls pass the same `answer` object.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // Returns the type of the body of a stream.
  virtual std::string_view ContentType() const { return "text/event-stream; charset=utf-8"; }

  // Returns the body of the response: JSON on one line. All choices, if there are any, must have
  // finished without errors.
  virtual std::string Whole(const ApiAnswer& answer) = 0;

  // A stream is Begin, then Add for each piece, then End or Fail. Each appends whole events
  // (AppendSse) or lines. Begin is called before the first piece, when the usage of the prompt is
  // known, or, if BeginsInQueue, while the requests wait for the engine. Fail may be called before
  // Begin.
  virtual bool BeginsInQueue() const { return false; }
  virtual void Begin(const ApiAnswer& answer, std::string* out) = 0;
  virtual void Add(const ApiAnswer& answer, const AnswerPiece& piece, std::string* out) = 0;
  // All choices must have finished without errors.
  virtual void End(const ApiAnswer& answer, std::string* out) = 0;
  // Shows clients and proxies that a silent stream is alive. May be called any time before End and
  // Fail, but not before Begin if BeginsInQueue.
  virtual void SignOfLife(std::string* out) { out->append(kSseKeepAlive); }
  // Ends a stream after an error.
  virtual void Fail(const ApiAnswer& answer, const ApiError& error, std::string* out) = 0;
};

// Appends "data: {...}\n\n" to `out`.
inline void AppendSse(const JsonValue& json, std::string* out) {
  out->append("data: ").append(WriteJson(json)).append("\n\n");
}
// Appends "event: name", and then the same data line.
inline void AppendSse(std::string_view event, const JsonValue& json, std::string* out) {
  out->append("event: ").append(event).append("\n");
  AppendSse(json, out);
}

// Ends a stream of OpenAI's chat completions and completions.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace fathom::api
