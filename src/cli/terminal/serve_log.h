// ServeLog: logs answered requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "cli/terminal/log.h"
#include "server/served_request.h"

namespace fathom::cli {

// Passes a few lines in each period and counts the rest. One thread at a time.
class LineLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::int64_t kLines = 20;
  static constexpr std::chrono::seconds kPeriod{10};

  // Returns whether one more line may be written.
  bool Take(Time now) {
    if (now - start_ >= kPeriod) {
      start_ = now;
      n_lines_ = 0;
    }
    const bool is_allowed = n_lines_ < kLines;
    is_allowed ? ++n_lines_ : ++n_left_out_;
    return is_allowed;
  }
  // Returns the number of omitted lines since the last call; 0 before a period is over.
  std::int64_t TakeLeftOut(Time now) {
    return now - start_ >= kPeriod ? std::exchange(n_left_out_, 0) : 0;
  }

 private:
  Time start_ = {};
  std::int64_t n_lines_ = 0;
  std::int64_t n_left_out_ = 0;
};

// Any thread.
class ServeLog {
 public:
  // The log must outlive this object. `quotes_requests`: lines may quote requests.
  ServeLog(Log& log, bool quotes_requests) : log_(log), quotes_requests_(quotes_requests) {}
  // Reports the omitted lines.
  ~ServeLog() { ReportLeftOut(LineLimit::Time::max()); }
  ServeLog(const ServeLog&) = delete;
  ServeLog& operator=(const ServeLog&) = delete;

  // Writes one line: client, request, time, tokens; in JSON each as a field of its own. Text of
  // requests and answers appears only if the record contains it. A line that may not quote requests
  // has the field and the kind of a client's error instead of its message, and the number of
  // keywords that are not enforced. Refused requests from clients without a key cost them nothing,
  // so only some of them get a line; another line has the number of the rest.
  void Add(const ServedRequest& record);

 private:
  void ReportLeftOut(LineLimit::Time now);

  Log& log_;
  const bool quotes_requests_;
  std::mutex mutex_;
  LineLimit strangers_;  // guarded by mutex_
};

}  // namespace fathom::cli
