// AnswerParser: the text of an answer, while it is generated, -> reasoning, content and tool calls.
//
// Models do not always write what the format asks for. This parser recovers the calls from the
// known deviations, never shows a half-written marker, and always produces valid JSON; the strict
// reading of the format is in strict_parser.h. docs/spec/encoding.md section 9.2 has the policy,
// case by case.
//
//   REASONING --</think>--> CONTENT --<tool_calls><invoke ..>--> INVOKE <--> VALUE
//                              ^                                   |
//                              |                        </invoke>  v
//                              +--(a block without calls)--  BLOCK ----</tool_calls>--> AFTER
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "chat/answer_event.h"
#include "chat/call_builder.h"
#include "chat/call_ids.h"
#include "chat/dsml_scanner.h"
#include "chat/tool_schemas.h"

namespace fathom {

struct AnswerParserOptions {
  // The prompt ended inside the reasoning (EncodedPrompt::ends_in_reasoning).
  bool starts_in_reasoning = false;
  // The tools of the request. No tools: the markup of calls is text. nullopt: it is not known which
  // tools there were; calls of any name are recognised, but only in markup that says DSML.
  std::optional<ToolSchemas> tools{};
  // The first call of the content is one whatever follows its opener, which the model did not
  // write.
  bool begins_with_call = false;
  // A block of calls at the start of a line ends the reasoning. Off: it is part of the reasoning.
  bool recover_calls_in_reasoning = true;
  // Append text after the calls to the content. Off: it is dropped, and counted.
  bool keep_text_after_calls = false;
  // See CallBuilderOptions.
  bool coerce_strings = false;
  // Send the text of string parameters as it arrives. Off: the arguments of a call are one event,
  // and of a repeated parameter the last value counts instead of the first.
  bool stream_arguments = true;
  std::string call_id_prefix = "call_";  // of the ids of calls
  RandomBits random_bits{};              // required
};

// Why no more text comes.
enum class AnswerEnd {
  kStop,    // the end-of-sentence token or a stop condition
  kLength,  // no room for more tokens
};

// How far the answer was from the format; for counters.
struct AnswerStats {
  std::size_t malformed_arguments = 0;  // values that should have been JSON; unreadable bodies
  std::size_t duplicate_parameters = 0;
  std::size_t failed_blocks = 0;  // looked like the start of a call and stayed text
  std::size_t dropped_bytes = 0;  // text between and after calls
};

// One answer; not thread-safe. The events, taken together, depend only on the bytes, not on how
// they were cut. What is held back is bounded: one tag or two with the blanks between them (under 2
// KB), values that are not strings, and a JSON body in place of parameters. Time is linear.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  // The next bytes of the answer, without the end-of-sentence token. What is not UTF-8 becomes
  // U+FFFD.
  std::vector<AnswerEvent> Feed(std::string_view bytes);

  // Call once, after the last Feed.
  std::vector<AnswerEvent> Finish(AnswerEnd end);

  // A block of calls is closed: the format allows nothing more, so generation may stop.
  bool calls_complete() const { return is_block_closed_; }

  AnswerStats stats() const;

 private:
  // The first four read text and look for tags; they differ in what becomes of the text.
  enum class State { kReasoning, kContent, kBlock, kAfter, kInvoke, kValue, kBody };
  // What a look at the start of a possible call says.
  enum class Look { kStarted, kNotACall, kIncomplete };

  std::string_view rest() const { return std::string_view(buffer_).substr(position_); }
  void Run();
  bool Step();
  bool StepText();
  std::size_t TakeTextTag(const Tag& tag);
  bool StepInvoke();
  bool StepValue();
  bool StepBody();

  Look TryStartCall(const Tag& tag);
  Look TryStartInvoke(std::size_t offset, const Tag& invoke, bool in_block);
  bool MayStartCall(const Tag& tag) const;
  bool MayBeInvoke(const Tag& tag) const;
  bool IsGivenCall() const;
  void CommitCall(std::string_view name, bool in_block);
  void EndCall(bool is_complete);
  void EndBody();
  void FinishTail();
  void FinishState();

  void EmitText(std::string_view text);
  void EmitVisible(std::string_view text);
  void FlushNewlines();
  void EmitValue(std::string_view text);
  void DropText(std::string_view text);

  const AnswerParserOptions options_;
  const bool reads_calls_;
  AnswerEvents events_;
  CallBuilder calls_;
  Utf8Stream utf8_;
  std::string buffer_;
  std::size_t position_ = 0;  // of the first byte of buffer_ that is not dealt with
  State state_;
  std::optional<AnswerEnd> end_;  // set once no more text comes

  // Newlines are held back until something follows: those before a call belong to the markup.
  std::size_t held_newlines_ = 0;
  bool has_reasoning_ = false;  // text other than newlines was sent as reasoning

  bool is_block_closed_ = false;  // a block with at least one call has ended
  bool in_block_ = false;         // the open call stands in a block with an opener
  bool value_is_dsml_ = false;    // the open parameter's opener said DSML: only such tags end it
  bool value_newline_ =
      false;  // a newline at the end of a value: text, unless the closer is missing
  State body_origin_ = State::kContent;
  bool body_in_block_ = false;
  std::string body_opening_;  // the markup before a JSON body, to be shown if it is none
  std::string body_tool_;
  std::string body_;
  AnswerStats stats_;
};

}  // namespace fathom
