// CompletionStream: collects the events of one streamed answer into the record of its request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::measure::load {

// The API of the server that receives the requests.
// /v1/completions accepts token ids: prompts have exactly the drawn number of tokens. The other
// endpoints (/v1/chat/completions, /v1/responses, /v1/messages) accept words.
enum class LoadEndpoint { kCompletions, kChat, kResponses, kMessages };

// Indexed by LoadEndpoint.
inline constexpr std::string_view kEndpointNames[] = {"completions", "chat", "responses",
                                                      "messages"};

constexpr std::string_view Name(LoadEndpoint endpoint) {
  return kEndpointNames[static_cast<std::size_t>(endpoint)];
}

// A piece of the stream that contains tokens.
struct TokenChunk {
  double time_s = 0;          // since the request began
  std::int64_t n_tokens = 1;  // the server's count; 1 if it does not count
};

// The times, counts and outcome of one request.
struct RequestRecord {
  double start_s = 0;  // since the start of the level; open loop: the time when it was due
  double end_s = 0;    // since the start of the level: the last byte, or the failure
  std::vector<TokenChunk> chunks;
  std::int64_t n_input = 0;   // tokens of the prompt, counted by the server
  std::int64_t n_cached = 0;  // prompt tokens from the server's cache
  std::int64_t n_output = 0;
  bool cancelled = false;  // by the user: neither a success nor a failure
  std::string failure{};   // kind of failure, such as "HTTP 503"; empty: the request was answered
  std::string message{};   // message of the failure

  bool successful() const { return failure.empty() && !cancelled; }
};

// Reads the stream of `endpoint`. An event counts as a chunk if it brings text, or if its usage
// (`continuous_usage_stats` of completions) counts more tokens than before. One thread.
class CompletionStream {
 public:
  explicit CompletionStream(LoadEndpoint endpoint) : endpoint_(endpoint) {}

  // time_s: since the request began.
  void Take(std::string_view data, double time_s);

  // Moves the results into the record. The request has failed if the stream lacks the end mark of
  // its API, or contains an error.
  void Finish(RequestRecord* record);

  // Returns the text of the answer without its reasoning.
  const std::string& content() const { return content_; }

 private:
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

// Returns the message of an OpenAI or Anthropic error body; the start of any other body.
std::string FindErrorMessage(std::string_view body);

}  // namespace fathom::measure::load
