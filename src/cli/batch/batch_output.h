// The lines of a batch, as OpenAI defines them (docs/batch.md).
//
//   in:  {"custom_id": ID, "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   out: {"id": ..., "custom_id": ID, "response": {"status_code", "request_id", "body"},
//         "error": null}
//
// BatchOutput: the file of results, which another run can continue.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "api/common/api.h"
#include "api/common/api_answer.h"
#include "base/descriptor.h"
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

// Owns the open file and the lock on it, which is released when the process ends in any way. One
// thread.
class BatchOutput {
 public:
  // `path`: "-" is standard output, which has no lock and no earlier results. Otherwise the file is
  // created or read: complete lines are kept, a torn last line is cut off. `input` is the file that
  // is read, or "-". Errors: `path` is the input, cannot be written, is in use by another run, or
  // contains anything that no batch has written; then nothing has changed.
  static Result<BatchOutput> Open(const std::string& path, const std::string& input);

  // Returns whether an earlier run has answered that request, or reported the error of that line
  // (from 1).
  bool HasAnswer(const std::string& custom_id) const { return answered_.contains(custom_id); }
  bool HasError(std::int64_t line_number) const { return failed_lines_.contains(line_number); }
  // Returns whether that answer of an earlier run is an error.
  bool HasFailed(const std::string& custom_id) const { return failed_.contains(custom_id); }

  // Appends a line, which ends with a newline, in one write. After an error, cuts off the written
  // part of the line where possible; the error says how to continue.
  Status Append(std::string_view line);
  // Error: the file no longer contains the written lines and nothing else.
  Status CheckWhole() const;

 private:
  BatchOutput(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Status CheckFile(const std::string& input) const;
  Status Lock() const;
  Status Recover();
  bool is_file() const { return path_ != "-"; }

  Descriptor file_;  // none: standard output
  std::string path_;
  off_t n_bytes_ = 0;  // size of the complete lines
  // Trees, because files choose the ids: a table is slow where they collide.
  std::set<std::string> answered_;
  std::set<std::string> failed_;  // answered ids whose answers are errors
  std::set<std::int64_t> failed_lines_;
};

}  // namespace fathom::cli
