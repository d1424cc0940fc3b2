// AnswerParser: parses the text of an answer, while it is generated, into reasoning, content and
// tool calls.
//
// Models do not always follow the format. This parser recovers the calls from the known deviations,
// and the arguments of calls that the model ended are always valid JSON; strict_parser.h parses the
// format strictly. docs/spec/encoding.md section 9.2 has the policy, case by case.
//
// If a limit cuts the answer, nothing is invented and nothing lost: arguments end where the model
// was cut, and the text ends with everything that was written, except markup that begins with
// ｜DSML｜ (one token, which is never part of text). So the content of a cut answer is the
// beginning of the content of a longer one, except for a last `<` or `</` and the newlines before
// it, which belong to such markup.
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
#include "chat/call_opening.h"
#include "chat/dsml_scanner.h"
#include "chat/trailing_block.h"

namespace fathom::chat {

// The reason why the text ended.
enum class AnswerEnd {
  kStop,    // the end-of-sentence token or a stop condition
  kLength,  // no room for more tokens
};

// Deviations of the answer from the format; for counters.
struct AnswerStats {
  std::size_t malformed_arguments = 0;  // values that should have been JSON; unreadable bodies
  std::size_t duplicate_parameters = 0;
  std::size_t failed_blocks = 0;  // looked like the start of a call and stayed text
  std::size_t dropped_bytes = 0;  // text between and after calls
};

// Parses one answer; not thread-safe. The joined events depend only on the bytes, not on their
// division into pieces. Held-back text is bounded: the opening of a call (kMaxOpeningBytes), a
// block within a line of the reasoning (TrailingBlock::kMaxBytes), values that are not strings, and
// a JSON body that replaces parameters. Time is linear.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  // Takes the next bytes of the answer, without the end-of-sentence token. Bytes that are not UTF-8
  // become U+FFFD.
  std::vector<AnswerEvent> Feed(std::string_view bytes);

  // Call once, after the last Feed.
  std::vector<AnswerEvent> Finish(AnswerEnd end);

  // Returns true if a block of calls is closed: the format allows no further text, so generation
  // may stop.
  bool calls_complete() const { return is_block_closed_; }

  AnswerStats stats() const;

 private:
  // The first four states read text and look for tags; they differ in the use of the text.
  enum class State { kReasoning, kContent, kBlock, kAfter, kInvoke, kValue, kBody };
  std::string_view rest() const { return std::string_view(buffer_).substr(position_); }
  void Run();
  bool Step();
  void TakeText(std::string_view text);
  bool StepText(const TagScan& scan);
  std::size_t TakeTextTag(const Tag& tag);
  void StepInvoke(const TagScan& scan);
  bool IsTextInDsml(const TagScan& scan) const;
  void StepValue(const TagScan& scan);
  void StepBody(const TagScan& scan);

  // Start a call, or consume part of the tag as text. Return false if more text is needed first.
  bool TryStartCall(const Tag& tag);
  bool TryEndReasoning(const Tag& tag);
  void StartCall(const CallOpening& opening);
  void TakeMention(const Tag& tag);
  bool MayStartCall(const Tag& tag) const;
  bool MayEndReasoning(const Tag& tag) const;
  bool IsGivenCall() const;
  void CommitCall(std::string_view name, bool in_block);
  void EndCall(bool is_complete);
  void EndBody();
  bool FinishTail(std::string_view tool, bool in_block);
  bool IsCutMarkup() const;
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
  std::size_t position_ = 0;  // position of the first byte of buffer_ not yet parsed
  State state_;
  std::optional<AnswerEnd> end_;  // set when the text has ended

  // Newlines are held back until other text follows: newlines before a call belong to the markup.
  std::size_t held_newlines_ = 0;
  bool has_reasoning_ = false;    // text other than newlines was sent as reasoning
  TrailingBlock trailing_block_;  // begins at position_, if any text of it is held back
  bool ends_with_calls_ = false;  // a block within a line of the reasoning ends the answer

  bool is_block_closed_ = false;  // a block with at least one call has ended
  bool in_block_ = false;         // the open call is in a block with an opener
  bool value_is_dsml_ = false;    // the open parameter's opener has DSML: only DSML tags end it
  // A newline ends the value so far: text, unless the closer is missing.
  bool value_newline_ = false;
  State body_origin_ = State::kContent;
  bool body_in_block_ = false;
  std::string body_opening_;  // the markup before a JSON body, emitted as text if there is no body
  std::string body_tool_;
  std::string body_;
  AnswerStats stats_;
};

}  // namespace fathom::chat
