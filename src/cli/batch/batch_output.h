// BatchOutput: the file of results of a batch, which another run can go on with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom::cli {

// Owns the open file and the lock on it, which ends with the process however that ends. One thread.
class BatchOutput {
 public:
  // `path`: "-" is standard output, which has no lock and nothing to go on with. Otherwise the file
  // is made, or read: complete lines are kept, a torn last one is cut off. `input` is the file that
  // is read, or "-". Errors: `path` is the input, cannot be written, is in use by another run, or
  // holds what no batch has written; then nothing has changed.
  static Result<BatchOutput> Open(const std::string& path, const std::string& input);

  // Whether an earlier run has answered that request, or told the error of that line (from 1).
  bool HasAnswer(const std::string& custom_id) const { return answered_.contains(custom_id); }
  bool HasError(std::int64_t line_number) const { return failed_lines_.contains(line_number); }
  // Whether that answer of an earlier run is an error.
  bool HasFailed(const std::string& custom_id) const { return failed_.contains(custom_id); }

  // Appends a line, which ends in a newline, with one write. After an error what was written of it
  // is cut off again where that is possible; the error says how to go on.
  Status Append(std::string_view line);
  // Error: the file no longer has the lines that were written, and nothing else.
  Status CheckWhole() const;

 private:
  BatchOutput(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Status CheckFile(const std::string& input) const;
  Status Lock() const;
  Status Recover();
  bool is_file() const { return path_ != "-"; }

  Descriptor file_;  // none: standard output
  std::string path_;
  off_t n_bytes_ = 0;  // complete lines
  // Trees, because files choose the ids: a table is slow where they collide.
  std::set<std::string> answered_;
  std::set<std::string> failed_;  // of those, the errors
  std::set<std::int64_t> failed_lines_;
};

}  // namespace fathom::cli
