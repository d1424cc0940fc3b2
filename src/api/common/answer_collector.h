// AnswerCollector: one choice, event by event, -> its answer.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/utf8.h"
#include "chat/answer.h"
#include "chat/answer_event.h"
#include "chat/call_ids.h"
#include "chat/parser.h"
#include "chat/tool_schemas.h"
#include "engine/token_stream.h"

namespace fathom {

// Options for parsing an answer.
struct AnswerOptions {
  bool is_chat = true;  // false: all text is content
  bool starts_in_reasoning = false;
  ToolSchemas tools;                     // the tools offered to the model
  bool stream_arguments = false;         // AnswerParserOptions
  std::string call_id_prefix = "call_";  // AnswerParserOptions
  bool parallel_tool_calls = true;       // false: only the first call is returned
  bool include_reasoning = true;         // false: reasoning is not returned
  bool begins_with_call = false;         // AnswerParserOptions
  std::vector<Token> stop_tokens{};      // that the request asked for
  std::vector<Token> turn_tokens{};      // that end every answer (chat_tokens.h)
  std::vector<std::string> stop_strings{};
};

// The forced beginning of an answer (forced_call.h).
struct ForcedPrefix {
  std::size_t n_before = 0;  // tokens that were generated before it
  std::string text{};
};

// All there is to know of a finished choice, or of one so far.
struct CollectedAnswer {
  Answer answer;                        // for a completion: content, finish_reason
  std::vector<Token> tokens;            // all generated tokens
  std::vector<ForcedPrefix> given;      // in order
  std::vector<TokenLogprobs> logprobs;  // one per token, if asked for
  std::optional<FinishReason> finish;
  std::optional<std::string> stop_string;  // that ended it
  std::optional<Token> stop_token;  // the one of AnswerOptions::stop_tokens that ended the answer
  bool ends_at_turn = false;        // one of AnswerOptions::turn_tokens ended it
  std::optional<Error> error;       // for kError and kCancelled
};

// One choice; one thread. `options` must outlive it.
class AnswerCollector {
 public:
  AnswerCollector(const AnswerOptions& options, const RandomBits& random_bits);

  // The next event of the choice; none after its finish. Returns what it added, whole characters,
  // for a stream; a completion's text comes as kContentDelta.
  //
  // An answer with all wanted calls is finished, as if the model had ended it there: later tokens
  // are ignored, so that the answer does not depend on when the engine stops.
  std::vector<AnswerEvent> Add(const StreamEvent& event);

  bool finished() const { return collected_.finish.has_value(); }
  // True if the answer is finished and the engine does not know.
  bool wants_no_more() const { return wants_no_more_; }
  const CollectedAnswer& collected() const { return collected_; }

 private:
  std::vector<AnswerEvent> ParseText(const StreamEvent& event);
  std::vector<AnswerEvent> TakeText(const StreamEvent& event);
  void SetFinish(const StreamEvent& event);

  const AnswerOptions& options_;
  std::unique_ptr<AnswerParser> parser_;  // null: not a chat
  Utf8Stream utf8_;                       // where there is no parser
  CollectedAnswer collected_;
  bool wants_no_more_ = false;
};

}  // namespace fathom
