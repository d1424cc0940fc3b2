// BatchOutput: a batch's file of results, which another run can continue.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom::cli {

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
