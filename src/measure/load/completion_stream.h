// CompletionStream: the events of one streamed answer, as far as a load needs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/load/load_endpoint.h"
#include "measure/load/request_record.h"
#include "measure/load/stream_event.h"

namespace fathom::load {

// Takes what `endpoint` sends. An event counts as a chunk if it brings text, or if its usage
// (`continuous_usage_stats` of completions) says that there are more tokens than before. One
// thread.
class CompletionStream {
 public:
  explicit CompletionStream(LoadEndpoint endpoint) : endpoint_(endpoint) {}

  // time_s: since the request began.
  void Take(std::string_view data, double time_s);

  // Moves what was read into the record. Without the end that the API has, or with an error in the
  // stream, the request has failed.
  void Finish(RequestRecord* record);

  // The text of the answer without its reasoning.
  const std::string& content() const { return content_; }

 private:
  void TakeUsage(const StreamUsage& usage);

  const LoadEndpoint endpoint_;
  std::vector<TokenChunk> chunks_;
  std::string content_;
  std::string error_;
  bool done_ = false;
  bool has_usage_ = false;  // of the output
  std::int64_t n_input_ = 0;
  std::int64_t n_cached_ = 0;
  std::int64_t n_output_ = 0;
};

}  // namespace fathom::load
