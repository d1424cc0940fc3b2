// RequestRecord: the times, counts and outcome of one request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom::load {

// A piece of the stream that brings tokens.
struct TokenChunk {
  double time_s = 0;          // since the request began
  std::int64_t n_tokens = 1;  // as the server counts them; 1 if it does not
};

struct RequestRecord {
  double start_s = 0;  // since the start of the level; in an open loop the time when it was due
  double end_s = 0;    // since the start of the level: the last byte, or the failure
  std::vector<TokenChunk> chunks;
  std::int64_t n_input = 0;   // tokens of the prompt, as the server counts them
  std::int64_t n_cached = 0;  // prompt tokens from the server's cache
  std::int64_t n_output = 0;
  bool cancelled = false;  // by the user: neither a success nor a failure
  std::string failure{};   // kind of failure, "HTTP 503"; empty: the request was answered
  std::string message{};   // of the failure

  bool successful() const { return failure.empty() && !cancelled; }
};

}  // namespace fathom::load
