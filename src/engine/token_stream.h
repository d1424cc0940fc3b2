// TokenStream: the answers to one request, event by event, from the engine's thread to another.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/request.h"

namespace fathom {

// One generated token of one choice, or the end of a choice without a token.
struct StreamEvent {
  static constexpr Token kNoToken = -1;

  std::uint32_t choice = 0;
  Token token = kNoToken;
  std::int64_t index = 0;  // of the token in the choice: 0 for the first
  // Bytes of the answer that are certain now: those of this and earlier tokens that cannot become
  // part of a stop string, and at the end all that are left. A token that ends the answer has none.
  // May cut a UTF-8 character in two.
  std::string text;
  std::optional<TokenLogprobs> logprobs;   // if asked for, of `token`
  std::optional<FinishReason> finish;      // set on the last event of a choice
  std::optional<std::size_t> stop_string;  // index of the one found, for kStopString
  std::optional<Error> error;              // for kError
};

// What became of a request; complete when its stream has ended.
struct RequestStats {
  std::uint64_t seed = 0;  // the one used: given or drawn
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;     // of the prompt, found in the prefix cache
  std::int64_t generated_tokens = 0;  // of all choices
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_tokens = 0;  // of the drafted
  std::int64_t preemptions = 0;
  double queue_seconds = 0;    // until its first step
  double prefill_seconds = 0;  // from there to the first token
  double decode_seconds = 0;   // from there to the end
};

class StreamState;  // engine/stream_state.h

// The reader's end. Movable; destroying it before the end cancels the request. One thread at a
// time.
class TokenStream {
 public:
  explicit TokenStream(std::shared_ptr<StreamState> state);
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream();

  // The next event; waits for it. False after the last: every choice has finished. `event` keeps
  // its memory from call to call.
  bool Next(StreamEvent& event);
  // The same, waiting no longer than `timeout`. None: nothing has happened yet.
  std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event);
  // Asks the engine to end the request: within a step its unfinished choices end with kCancelled
  // and everything it holds is free. May be called at any time.
  void Cancel();
  // prompt_tokens and cached_tokens are final from the first event on, all of it when Next has
  // returned false.
  RequestStats stats() const;

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace fathom
