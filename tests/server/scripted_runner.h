// ScriptedRunner: answers as they stand in a script, with the events an engine would send. Where
// what matters is the way from text to client, no model writes reasoning and calls on demand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/common/request_runner.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {

struct ScriptedAnswer {
  // All that the model writes after the prompt's <｜Assistant｜> and the <think> or </think> behind
  // it; special tokens written in it are tokens. What of it the prompt already holds is not written
  // again.
  std::string text;
  FinishReason finish = FinishReason::kStop;  // after the text
  std::optional<Error> error{};               // of kError
  std::optional<std::size_t> cut{};           // the text comes in two events, cut at this byte
  bool is_plain = false;                      // special tokens written in the text are text
  bool bytewise = false;                      // an event for each byte
  std::chrono::milliseconds delay{0};         // before each event
  std::chrono::milliseconds first_delay{0};   // before the first one, besides
};

// The script is asked once for each request, with the text of its prompt; on the submitting thread.
// Any thread.
class ScriptedRunner final : public RequestRunner {
 public:
  using Script = std::function<Result<ScriptedAnswer>(const std::string& prompt)>;

  // The tokenizer must outlive it.
  ScriptedRunner(const Tokenizer& tokenizer, Script script)
      : tokenizer_(tokenizer), script_(std::move(script)) {}

  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override;

  // Requests that have been submitted, and those destroyed before their last event was taken.
  int submitted() const { return submitted_; }
  int cancelled() const { return cancelled_; }

 private:
  const Tokenizer& tokenizer_;
  const Script script_;
  std::atomic<int> submitted_ = 0;
  std::atomic<int> cancelled_ = 0;
};

// The text of the last user turn of a prompt.
std::string LastUserText(const std::string& prompt);

}  // namespace fathom::testing
