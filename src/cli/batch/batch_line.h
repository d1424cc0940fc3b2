// The lines of a batch, as OpenAI defines them (docs/batch.md).
//
//   in:  {"custom_id": ID, "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   out: {"id": ..., "custom_id": ID, "response": {"status_code", "request_id", "body"},
//         "error": null}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/common/api.h"
#include "api/common/api_answer.h"
#include "base/result.h"

namespace fathom::cli {

struct BatchInputLine {
  std::string custom_id;
  const Api* api = nullptr;
  std::string body;  // the JSON as written in the line
};

// The reason why a line of the input contains no request that can run.
struct BatchLineError {
  std::string custom_id;  // empty: the line has no readable id
  std::string code;
  std::string message;
};

tl::expected<BatchInputLine, BatchLineError> ParseBatchLine(std::string_view line);

// Identifies the input line that an output line answers: by its id, or, if it has none of its own,
// by its number.
struct BatchOutputKey {
  std::string custom_id;
  std::int64_t line_number = 0;  // from 1; 0: the line is known by its custom_id
  bool is_error = false;         // the line holds anything but an answer with status 200
};
// Error: the line is not a line of a batch's output.
Result<BatchOutputKey> ParseBatchOutputLine(std::string_view line);

// Return lines of the output, each with its newline. The ids are made from `request_id`.
std::string BatchReplyLine(std::string_view custom_id, std::string_view request_id,
                           const ApiReply& reply);
// Returns the line with the error of an input line that never ran. `line_number` is its place in
// the input, from 1.
std::string BatchErrorLine(const BatchLineError& error, std::int64_t line_number);

// Returns true if `text` could be the beginning of a line of the output, as a torn last line is.
bool MayBeginBatchOutput(std::string_view text);

}  // namespace fathom::cli
