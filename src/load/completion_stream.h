// CompletionStream: the events of one streamed answer, as far as a load needs them.
#ifndef FATHOM_LOAD_COMPLETION_STREAM_H_
#define FATHOM_LOAD_COMPLETION_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/request_record.h"
#include "prompt/json_value.h"

namespace fathom::load {

// Takes what /v1/completions and /v1/chat/completions send. A chunk counts if it brings text, or
// if its usage (`continuous_usage_stats`) says that there are more tokens than before. One thread.
class CompletionStream {
 public:
  // time_s: since the request began.
  void Take(std::string_view data, double time_s);

  // Moves what was read into the record. Without [DONE], or with an error in the stream, the
  // request has failed.
  void Finish(RequestRecord* record);

  // The text of the answer without its reasoning.
  const std::string& content() const { return content_; }

 private:
  void TakeUsage(const JsonValue& usage);
  bool TakeText(const JsonValue& chunk);

  std::vector<TokenChunk> chunks_;
  std::string content_;
  std::string error_;
  bool done_ = false;
  bool has_usage_ = false;
  std::int64_t n_input_ = 0;
  std::int64_t n_cached_ = 0;
  std::int64_t n_output_ = 0;
};

// The message of an error body of OpenAI or Anthropic; the start of the body where it is neither.
std::string ErrorMessageOf(std::string_view body);

}  // namespace fathom::load

#endif  // FATHOM_LOAD_COMPLETION_STREAM_H_
