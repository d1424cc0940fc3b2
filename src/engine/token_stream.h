// TokenStream: delivers the answers to one request, event by event, from the engine's thread to a
// reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/request.h"

namespace fathom::engine {

// One generated token of one choice, or the end of a choice without a token.
struct StreamEvent {
  static constexpr Token kNoToken = -1;

  std::uint32_t choice = 0;
  Token token = kNoToken;
  std::int64_t index = 0;  // index of the token in its choice, from 0
  // Bytes of the answer that are certain now: bytes of this and earlier tokens that cannot become
  // part of a stop string; at the end, all remaining bytes. A token that ends the answer has no
  // bytes. A UTF-8 character may be split between events.
  std::string text;
  std::optional<TokenLogprobs> logprobs;   // log-probabilities of `token`, if requested
  std::optional<FinishReason> finish;      // set on the last event of a choice
  std::optional<std::size_t> stop_string;  // index of the stop string for kStopString
  std::optional<Error> error;              // the error for kError
};

// Statistics of a request; complete when its stream has ended.
struct RequestStats {
  std::uint64_t seed = 0;  // given or drawn
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;     // prompt tokens found in the prefix cache
  std::int64_t generated_tokens = 0;  // tokens of all choices
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_tokens = 0;  // drafted tokens that were right
  std::int64_t preemptions = 0;
  // The log probabilities of all prompt tokens but the first, in order; null unless
  // Request::prompt_logprobs is set. Fewer if the request ended before the prompt was read.
  std::shared_ptr<const std::vector<TokenLogprobs>> prompt_logprobs;
  double queue_seconds = 0;    // until the first step
  double prefill_seconds = 0;  // from the first step to the first token
  double decode_seconds = 0;   // from the first token to the end
};

// A request that runs, for readers that tests serve without an engine. Its destruction before the
// end cancels the request.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  // Waits for the next event, `timeout` at most. Returns nothing if nothing has happened yet, and
  // false if every choice has finished. `event` keeps its memory from call to call.
  virtual std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) = 0;
  // Returns the statistics. prompt_tokens, cached_tokens and prompt_logprobs are final from the
  // first event on, all others after the last event.
  virtual RequestStats stats() const = 0;
  // Cancels the request: within a step its unfinished choices end with kCancelled and its memory is
  // freed. May be called at any time.
  virtual void Cancel() {}
};

class StreamState;  // engine/stream_state.h

// The reader's end of an engine's stream. Movable. One thread at a time.
class TokenStream final : public RunningRequest {
 public:
  explicit TokenStream(std::shared_ptr<StreamState> state);
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream() override;

  // Waits for the next event, as NextFor, without a limit.
  bool Next(StreamEvent& event);
  std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) override;
  RequestStats stats() const override;
  void Cancel() override;

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace fathom::engine
