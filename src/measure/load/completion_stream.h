// CompletionStream: collects the events of one streamed answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/load/load_endpoint.h"
#include "measure/load/request_record.h"
#include "measure/load/stream_event.h"

namespace fathom::load {

// Reads the stream of `endpoint`. An event counts as a chunk if it brings text, or if its usage
// (`continuous_usage_stats` of completions) counts more tokens than before. One thread.
class CompletionStream {
 public:
  explicit CompletionStream(LoadEndpoint endpoint) : endpoint_(endpoint) {}

  // time_s: since the request began.
  void Take(std::string_view data, double time_s);

  // Moves the results into the record. The request has failed if the stream lacks the end that its
  // API has, or contains an error.
  void Finish(RequestRecord* record);

  // Returns the text of the answer without its reasoning.
  const std::string& content() const { return content_; }

 private:
  void TakeUsage(const StreamUsage& usage);

  const LoadEndpoint endpoint_;
  std::vector<TokenChunk> chunks_;
  std::string content_;
  std::string error_;
  bool done_ = false;
  bool has_usage_ = false;  // the usage counted output tokens
  std::int64_t n_input_ = 0;
  std::int64_t n_cached_ = 0;
  std::int64_t n_output_ = 0;
};

}  // namespace fathom::load
