// ScriptedRunner: answers from a script, with the events that an engine would send. Tests of the
// way from text to client need reasoning and calls on demand, which no model writes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/common/request_runner.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {

struct ScriptedAnswer {
  // All text of the model after the prompt's <｜Assistant｜> and the <think> or </think> behind it;
  // special tokens in the text are tokens. Text that the prompt already contains is not written
  // again.
  std::string text;
  FinishReason finish = FinishReason::kStop;  // after the text
  std::optional<Error> error{};               // for kError
  std::optional<std::size_t> cut{};           // the text comes in two events, divided at this byte
  std::int64_t cached_tokens = 0;             // of the prompt
  bool is_plain = false;                      // special tokens written in the text are text
  bool bytewise = false;                      // an event for each byte
  std::chrono::milliseconds delay{0};         // before each event
  std::chrono::milliseconds first_delay{0};   // before the first event, in addition
};

// The script is called once for each request, with the text of its prompt, on the submitting
// thread. Any thread.
class ScriptedRunner final : public RequestRunner {
 public:
  using Script = std::function<Result<ScriptedAnswer>(const std::string& prompt)>;

  // The tokenizer must outlive the runner.
  ScriptedRunner(const Tokenizer& tokenizer, Script script)
      : tokenizer_(tokenizer), script_(std::move(script)) {}

  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override;

  // Submitted requests, and requests destroyed before their last event was taken.
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
