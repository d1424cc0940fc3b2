// AnswerCollector: collects the events of one choice into its answer. TokenSections: the part of
// the answer that each generated token belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
#include "tokenizer/tokenizer.h"

namespace fathom::api {

// Options for reading an answer.
struct AnswerOptions {
  bool is_chat = true;  // false: all text is content
  // The tools are the ones that the model was offered. The collector sets the random bits.
  AnswerParserOptions parser = {.tools = ToolSchemas(), .stream_arguments = false};
  bool parallel_tool_calls = true;   // false: only the first call is reported
  bool include_reasoning = true;     // false: reasoning is not reported
  std::vector<Token> stop_tokens{};  // requested by the client
  std::vector<Token> turn_tokens{};  // tokens that end every answer (prompt_tokens.h)
  std::vector<std::string> stop_strings{};
};

// All that is known about a choice, finished or not.
struct CollectedAnswer {
  Answer answer;                        // for a completion: content, finish_reason
  std::vector<Token> tokens;            // all generated tokens
  std::vector<TokenLogprobs> logprobs;  // one for each token, if requested
  std::optional<FinishReason> finish;
  std::optional<std::string> stop_string;  // the stop string that ended the choice
  std::optional<Token> stop_token;  // the token of AnswerOptions::stop_tokens that ended the choice
  bool ends_at_turn = false;        // a token of AnswerOptions::turn_tokens ended the choice
  std::optional<Error> error;       // the error for kError and kCancelled
};

// Collects one choice; used by one thread. `options` must outlive the collector.
class AnswerCollector {
 public:
  AnswerCollector(const AnswerOptions& options, const RandomBits& random_bits);

  // Takes the next event of the choice; no event may follow the finish. Returns the additions of
  // the event, in whole characters, for a stream; the text of a completion is returned as
  // kContentDelta.
  //
  // An answer that has all requested calls is finished, as if the model had ended it there. Later
  // events are ignored, so that the answer does not depend on when the engine stops.
  std::vector<AnswerEvent> Add(const StreamEvent& event);

  bool finished() const { return collected_.finish.has_value(); }
  // Returns true if the choice is finished and the engine does not know it yet.
  bool wants_no_more() const { return wants_no_more_; }
  const CollectedAnswer& collected() const { return collected_; }

 private:
  std::vector<AnswerEvent> ParseText(const StreamEvent& event);
  std::vector<AnswerEvent> TakeText(const StreamEvent& event);
  void SetFinish(const StreamEvent& event);

  const AnswerOptions& options_;
  std::unique_ptr<AnswerParser> parser_;  // null: not a chat
  Utf8Stream utf8_;                       // used without a parser
  CollectedAnswer collected_;
  bool wants_no_more_ = false;
};

enum class TokenSection {
  kReasoning,
  kContent,
  kMarkup,  // tags of the format, calls, the token that ended the answer, dropped text
};

// The parser reads text, not tokens. So the text of the tokens is aligned first with the reasoning
// and then with the content; the rest is markup. The section of a token is decided as soon as later
// text cannot change it: when its text, or other text in its place, is in the answer. The sections
// do not depend on how the answer was split into events.
//
// Serves one choice in one thread. The tokenizer must outlive it.
class TokenSections {
 public:
  explicit TokenSections(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // All calls pass the same `answer` object, which only grows.
  void Advance(const CollectedAnswer& answer);

  // Returns the sections of the first tokens, or of all tokens once the answer is finished.
  std::span<const TokenSection> sections() const { return sections_; }
  // Returns the number of tokens up to the last one that is known to be reasoning.
  std::int64_t n_reasoning() const { return n_reasoning_; }

 private:
  void ReadPiece(const CollectedAnswer& answer);
  std::optional<TokenSection> Decide(const CollectedAnswer& answer);

  const Tokenizer& tokenizer_;
  std::vector<TokenSection> sections_;
  std::int64_t n_reasoning_ = 0;
  std::size_t reasoning_bytes_ = 0;  // bytes of the reasoning that are aligned
  std::size_t content_bytes_ = 0;
  // A character that several tokens share belongs to the last of them. The others have no text and
  // join the section of the text that follows.
  Utf8Stream utf8_;
  std::optional<std::string> piece_;  // the text of the first undecided token
};

}  // namespace fathom::api
