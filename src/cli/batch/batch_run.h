// BatchRun: runs the lines of a batch through an engine, many concurrently, and writes each result
// when it is complete.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api_answer.h"
#include "api/common/request_runner.h"
#include "base/result.h"
#include "chat/call_ids.h"
#include "cli/batch/batch_output.h"

namespace fathom::cli {

// The numbers of input lines that are not blank, of lines that the output does not answer yet, and
// of lines that it answers with errors.
struct BatchPlan {
  std::int64_t n_lines = 0;
  std::int64_t n_open = 0;
  std::int64_t n_kept_errors = 0;
};
BatchPlan PlanBatch(std::string_view input, const BatchOutput& output);

// Counts of this run.
struct BatchTotals {
  std::int64_t n_done = 0;       // lines written
  std::int64_t n_errors = 0;     // written lines with any status but 200
  std::int64_t n_relaxed = 0;    // requests whose form is not fully enforced (ApiCall::relaxed)
  Usage usage;                   // usage of the finished requests
  std::int64_t n_generated = 0;  // tokens, including unfinished requests
};

// Returns the progress: "batch 12/300, in 1234.5, out 67.8 tokens/s, 4 min 30 s left". n_open: the
// number of open lines in the plan.
std::string BatchProgress(const BatchTotals& totals, std::int64_t n_open, double seconds);

// Returns the summary: "12 of 300 requests (2 kept from before), 1 error; tokens: prompt 345 (30
// cached), generated 678; 9.1 s, 37.9 prompt tokens/s, 74.5 generated tokens/s". Errors include the
// errors of kept lines.
std::string BatchSummary(const BatchTotals& totals, const BatchPlan& plan, double seconds);

// Called every few milliseconds. Returns false to stop the run.
using BatchWatch = std::function<bool(const BatchTotals&)>;

// One run; one thread. All arguments must outlive it.
class BatchRun {
 public:
  BatchRun(const ApiModel& model, RequestRunner& runner, BatchOutput& output,
           RandomBits random_bits);
  ~BatchRun();

  // Runs the lines that the output does not answer yet; results are written in the order in which
  // they are complete. A wrong line yields an output line with its error. Errors end the run, and
  // written lines stay: the output cannot be written, or was changed by another program; the engine
  // has shut down; kUnavailable without a message: `watch` stopped the run.
  Status Run(std::string_view input, const BatchWatch& watch);

  const BatchTotals& totals() const { return totals_; }

 private:
  struct Job;

  Status Start(std::string_view line, std::int64_t number);
  Status SubmitNext();
  Status Drain(Job& job, bool* has_moved);
  Status Finish(const std::string& custom_id, const ApiReply& reply);
  Status WriteError(const BatchLineError& error, std::int64_t number);
  Status Write(const std::string& line, bool is_error);

  const ApiModel& model_;
  RequestRunner& runner_;
  BatchOutput& output_;
  const RandomBits random_bits_;
  BatchTotals totals_;
  std::set<std::string> seen_;              // custom ids of all lines so far
  std::unique_ptr<Job> next_;               // a job with requests to be submitted
  std::vector<std::unique_ptr<Job>> jobs_;  // jobs whose requests are all submitted
};

}  // namespace fathom::cli
