#include "chat/parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "chat/literals.h"

namespace fathom {
namespace {

using Outcome = TagScan::Outcome;

// With more blanks than this behind it, a tag does not open a call.
constexpr std::size_t kMaxBlanks = 64;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Counts the blanks at the start, up to kMaxBlanks + 1.
std::size_t CountBlanks(std::string_view text) {
  const auto end = text.begin() + std::min(std::ssize(text), std::ptrdiff_t{kMaxBlanks} + 1);
  return static_cast<std::size_t>(std::find_if_not(text.begin(), end, IsBlank) - text.begin());
}

CallBuilderOptions BuilderOptions(const AnswerParserOptions& options) {
  return {.tools = options.tools.value_or(ToolSchemas()),
          .coerce_strings = options.coerce_strings,
          .stream_arguments = options.stream_arguments,
          .call_id_prefix = options.call_id_prefix,
          .random_bits = options.random_bits};
}

}  // namespace

AnswerParser::AnswerParser(AnswerParserOptions options)
    : options_(std::move(options)),
      reads_calls_(!options_.tools || !options_.tools->empty()),
      calls_(BuilderOptions(options_), &events_),
      state_(options_.starts_in_reasoning ? State::kReasoning : State::kContent) {}

std::vector<AnswerEvent> AnswerParser::Feed(std::string_view bytes) {
  utf8_.Push(bytes, buffer_);
  Run();
  return events_.Take();
}

std::vector<AnswerEvent> AnswerParser::Finish(AnswerEnd end) {
  // At a length stop, half a character is dropped like half a marker: it may have belonged to one.
  if (end == AnswerEnd::kStop) utf8_.Finish(buffer_);
  end_ = end;
  Run();
  FinishState();
  ChatFinishReason reason = ChatFinishReason::kStop;
  if (end == AnswerEnd::kLength) {
    reason = ChatFinishReason::kLength;
  } else if (calls_.complete_calls() > 0) {
    reason = ChatFinishReason::kToolCalls;
  }
  events_.Add({.kind = AnswerEvent::Kind::kFinish, .finish = reason});
  return events_.Take();
}

AnswerStats AnswerParser::stats() const {
  AnswerStats stats = stats_;
  stats.malformed_arguments += calls_.malformed_arguments();
  stats.duplicate_parameters = calls_.duplicate_parameters();
  return stats;
}

void AnswerParser::Run() {
  while (position_ < buffer_.size() && Step()) {
  }
  buffer_.erase(0, position_);
  position_ = 0;
}

// Parses some of the rest, which is not empty. False: more text is needed first; never after the
// end.
bool AnswerParser::Step() {
  const std::size_t text = std::min(rest().find('<'), rest().size());
  if (text > 0) {
    TakeText(rest().substr(0, text));
    position_ += text;
    return true;
  }
  TagScan scan = ScanTag(rest());
  if (IsTextInDsml(scan)) scan.outcome = Outcome::kNoTag;
  if (scan.outcome == Outcome::kIncomplete && !end_) return false;
  switch (state_) {
    case State::kInvoke:
      StepInvoke(scan);
      return true;
    case State::kValue:
      StepValue(scan);
      return true;
    case State::kBody:
      StepBody(scan);
      return true;
    default:
      return StepText(scan);
  }
}

// Takes text up to the next '<'.
void AnswerParser::TakeText(std::string_view text) {
  switch (state_) {
    case State::kInvoke:
      return DropText(text);
    case State::kValue:
      return EmitValue(text);
    case State::kBody:
      body_.append(text);
      return;
    default:
      return EmitText(text);
  }
}

bool AnswerParser::StepText(const TagScan& scan) {
  if (scan.outcome == Outcome::kTag) {
    if (reads_calls_ && MayStartCall(scan.tag)) {
      const Look look = TryStartCall(scan.tag);
      if (look == Look::kStarted) return true;
      if (look == Look::kIncomplete) {
        if (!end_) return false;
        FinishTail();
        return true;
      }
      if (scan.tag.is_dsml) ++stats_.failed_blocks;
    }
    position_ += TakeTextTag(scan.tag);
    return true;
  }
  if (scan.outcome == Outcome::kIncomplete) {
    FinishTail();
    return true;
  }
  EmitText("<");
  ++position_;
  return true;
}

// Handles a tag that does not open a call. Returns how many of its bytes are done.
std::size_t AnswerParser::TakeTextTag(const Tag& tag) {
  const bool follows_call = state_ == State::kBlock || state_ == State::kAfter;
  bool is_markup = follows_call;
  if (tag.kind == TagKind::kThinkOpen) {
    // Inside the reasoning, only an echo of the prompt's own tag, before any text, is markup.
    is_markup = state_ != State::kReasoning || !has_reasoning_;
  } else if (tag.kind == TagKind::kThinkClose) {
    is_markup = true;
    if (state_ == State::kReasoning) {
      FlushNewlines();
      state_ = State::kContent;
    }
  } else if (tag.kind == TagKind::kBlockClose && state_ == State::kBlock) {
    state_ = State::kAfter;
    is_block_closed_ = true;
  }
  // Shows a tag that is text from its bracket on: the rest may contain another tag.
  if (is_markup) return tag.bytes;
  EmitText("<");
  return 1;
}

bool AnswerParser::MayStartCall(const Tag& tag) const {
  if (tag.kind != TagKind::kBlockOpen && tag.kind != TagKind::kInvokeOpen) return false;
  if (state_ != State::kReasoning) return true;
  // Reasoning may mention a marker; a block of calls begins at the start of a line.
  const bool at_line_start = held_newlines_ > 0 || !has_reasoning_;
  return options_.recover_calls_in_reasoning && at_line_start && tag.kind == TagKind::kBlockOpen;
}

// A plain <invoke name="..."> counts only for a tool of the request.
bool AnswerParser::MayBeInvoke(const Tag& tag) const {
  return tag.is_dsml || (options_.tools && options_.tools->Knows(tag.name));
}

// True if a call that begins here is the one whose opener was in the prompt: no content precedes
// it.
bool AnswerParser::IsGivenCall() const {
  return options_.begins_with_call && state_ == State::kContent;
}

// `tag`, at the start of the rest, opens a block or a call, if the required text follows.
AnswerParser::Look AnswerParser::TryStartCall(const Tag& tag) {
  if (tag.kind == TagKind::kInvokeOpen) return TryStartInvoke(0, tag, state_ == State::kBlock);
  const std::string_view after = rest().substr(tag.bytes);
  const std::size_t blanks = CountBlanks(after);
  if (blanks > kMaxBlanks) return Look::kNotACall;
  if (blanks == after.size()) return Look::kIncomplete;
  const TagScan next = ScanTag(after.substr(blanks));
  if (next.outcome == Outcome::kIncomplete) return Look::kIncomplete;
  if (next.outcome == Outcome::kNoTag) return Look::kNotACall;
  if (next.tag.kind == TagKind::kInvokeOpen) {
    return TryStartInvoke(tag.bytes + blanks, next.tag, true);
  }
  const bool is_empty_block = next.tag.kind == TagKind::kBlockClose && tag.is_dsml;
  if (!is_empty_block || state_ == State::kReasoning) return Look::kNotACall;
  held_newlines_ = 0;
  position_ += tag.bytes + blanks + next.tag.bytes;
  return Look::kStarted;
}

// `invoke` begins `offset` bytes into the rest; only the opener of its block, if any, precedes it.
// It opens a call if a parameter, the closer or the brace of a JSON body follows.
AnswerParser::Look AnswerParser::TryStartInvoke(std::size_t offset, const Tag& invoke,
                                                bool in_block) {
  if (!MayBeInvoke(invoke)) return Look::kNotACall;
  const bool is_given = IsGivenCall();
  const std::size_t after_tag = offset + invoke.bytes;
  const std::string_view after = rest().substr(after_tag);
  const std::size_t blanks = CountBlanks(after);
  if (blanks > kMaxBlanks && !is_given) return Look::kNotACall;
  if (blanks == after.size() && !(is_given && end_)) return Look::kIncomplete;
  if (after.substr(blanks).starts_with('{')) {
    body_origin_ = state_;
    body_in_block_ = in_block;
    body_opening_ = rest().substr(0, after_tag + blanks);
    body_tool_ = invoke.name;
    state_ = State::kBody;
    position_ += after_tag + blanks;
    return Look::kStarted;
  }
  if (!is_given) {
    const TagScan next = ScanTag(after.substr(blanks));
    if (next.outcome == Outcome::kIncomplete) return Look::kIncomplete;
    const bool is_call =
        next.outcome == Outcome::kTag &&
        (next.tag.kind == TagKind::kParameterOpen || next.tag.kind == TagKind::kInvokeClose);
    if (!is_call) return Look::kNotACall;
  }
  CommitCall(invoke.name, in_block);
  position_ += after_tag + blanks;
  return Look::kStarted;
}

void AnswerParser::CommitCall(std::string_view name, bool in_block) {
  held_newlines_ = 0;
  in_block_ = in_block;
  state_ = State::kInvoke;
  calls_.Begin(name);
}

void AnswerParser::EndCall(bool is_complete) {
  calls_.End(is_complete);
  state_ = in_block_ ? State::kBlock : State::kAfter;
}

// Parses the text between the parameters of a call.
void AnswerParser::StepInvoke(const TagScan& scan) {
  if (scan.outcome != Outcome::kTag) {
    const std::size_t dropped = scan.outcome == Outcome::kIncomplete ? rest().size() : 1;
    DropText(rest().substr(0, dropped));
    position_ += dropped;
    return;
  }
  switch (scan.tag.kind) {
    case TagKind::kParameterOpen:
      calls_.BeginParameter(scan.tag.name, scan.tag.is_string);
      value_is_dsml_ = scan.tag.is_dsml;
      state_ = State::kValue;
      break;
    case TagKind::kInvokeClose:
      EndCall(true);
      break;
    case TagKind::kInvokeOpen:
      if (!MayBeInvoke(scan.tag)) break;
      [[fallthrough]];
    case TagKind::kBlockClose:
      EndCall(true);  // the closer is missing; what comes next is read from its tag on
      return;
    default:  // a stray closer or think tag
      break;
  }
  position_ += scan.tag.bytes;
}

// True in a value in DSML where a plain tag may begin, which is text there. Its name may have any
// characters, so that its end may be looked for behind the closer of the value.
bool AnswerParser::IsTextInDsml(const TagScan& scan) const {
  return state_ == State::kValue && value_is_dsml_ && scan.outcome == Outcome::kIncomplete &&
         rest() != "<" && rest() != "</" && IsPlainTail(rest());
}

// Inside a value, only markup of its own family is structure: the closer or, if that is missing,
// the tag of the next parameter or call.
void AnswerParser::StepValue(const TagScan& scan) {
  const bool is_plain_tail = end_ == AnswerEnd::kStop && IsPlainTail(rest());
  if (scan.outcome == Outcome::kIncomplete && !is_plain_tail) {
    position_ = buffer_.size();
    return;
  }
  const TagKind kind = scan.tag.kind;
  const bool is_text = scan.outcome != Outcome::kTag || kind == TagKind::kThinkOpen ||
                       kind == TagKind::kThinkClose || kind == TagKind::kBlockOpen ||
                       (value_is_dsml_ && !scan.tag.is_dsml) ||
                       (kind == TagKind::kInvokeOpen && !MayBeInvoke(scan.tag));
  if (is_text) {
    EmitValue("<");
    ++position_;
    return;
  }
  if (kind == TagKind::kParameterClose) {
    if (value_newline_) calls_.Value("\n");
    position_ += scan.tag.bytes;
  }
  value_newline_ = false;
  calls_.EndParameter();
  state_ = State::kInvoke;
}

// Parses a JSON object in place of parameters; it ends at the first tag that ends or begins a call
// or block.
void AnswerParser::StepBody(const TagScan& scan) {
  const bool is_plain_tail = end_ == AnswerEnd::kStop && IsPlainTail(rest());
  if (scan.outcome == Outcome::kIncomplete && !is_plain_tail) {
    position_ = buffer_.size();
    return;
  }
  const TagKind kind = scan.tag.kind;
  if (scan.outcome == Outcome::kTag &&
      (kind == TagKind::kInvokeClose || kind == TagKind::kInvokeOpen ||
       kind == TagKind::kBlockClose)) {
    EndBody();
    return;
  }
  body_.push_back('<');
  ++position_;
}

// The tag that ended the body is left, to be read as the end of a call or as text.
void AnswerParser::EndBody() {
  const std::string body = std::exchange(body_, {});
  state_ = body_origin_;
  const bool is_read = calls_.Whole(body);
  if (!is_read) ++stats_.malformed_arguments;
  if (is_read || IsGivenCall()) {
    CommitCall(body_tool_, body_in_block_);
    return;
  }
  ++stats_.failed_blocks;
  // Shows all of it as text, except think tags.
  const std::string text = body_opening_ + body;
  EmitText(text.substr(0, 1));
  for (std::string_view left = std::string_view(text).substr(1); !left.empty();) {
    std::size_t taken = std::min(left.find('<'), left.size());
    if (taken > 0) {
      EmitText(left.substr(0, taken));
    } else if (const TagScan scan = ScanTag(left); scan.outcome == Outcome::kTag) {
      taken = TakeTextTag(scan.tag);
    } else {
      EmitText("<");
      taken = 1;
    }
    left.remove_prefix(taken);
  }
}

// The text ended where a tag or a call might have begun. A half-written marker is never shown.
void AnswerParser::FinishTail() {
  const bool is_call = ScanTag(rest()).outcome == Outcome::kTag;
  const bool is_think_tail =
      kThinkOpenToken.starts_with(rest()) || kThinkCloseToken.starts_with(rest());
  bool is_text = end_ == AnswerEnd::kStop && (is_call || IsPlainTail(rest()));
  if (!reads_calls_ && !is_think_tail) is_text = true;
  if (!is_text) {
    position_ = buffer_.size();
    held_newlines_ = 0;
    return;
  }
  if (is_call) ++stats_.failed_blocks;
  EmitText("<");
  ++position_;
}

void AnswerParser::FinishState() {
  if (state_ == State::kBody) {
    state_ = body_origin_;
    if (end_ == AnswerEnd::kLength && !IsGivenCall() && !calls_.Whole(body_)) {
      ++stats_.malformed_arguments;
      held_newlines_ = 0;
    } else {
      EndBody();
    }
  }
  if (state_ == State::kValue) {
    if (value_newline_) calls_.Value("\n");
    calls_.EndParameter();
    EndCall(false);
  }
  if (state_ == State::kInvoke) EndCall(end_ == AnswerEnd::kStop);
  FlushNewlines();
}

// Text in the states that read text.
void AnswerParser::EmitText(std::string_view text) {
  const bool is_dropped =
      state_ == State::kBlock || (state_ == State::kAfter && !options_.keep_text_after_calls);
  if (is_dropped) {
    DropText(text);
    return;
  }
  const std::size_t last = text.find_last_not_of('\n');
  if (last != std::string_view::npos) {
    FlushNewlines();
    EmitVisible(text.substr(0, last + 1));
    text.remove_prefix(last + 1);
    has_reasoning_ = has_reasoning_ || state_ == State::kReasoning;
  }
  held_newlines_ += text.size();
}

void AnswerParser::EmitVisible(std::string_view text) {
  events_.AddDelta(state_ == State::kReasoning ? AnswerEvent::Kind::kReasoningDelta
                                               : AnswerEvent::Kind::kContentDelta,
                   text);
}

void AnswerParser::FlushNewlines() {
  EmitVisible(std::string(std::exchange(held_newlines_, 0), '\n'));
}

void AnswerParser::EmitValue(std::string_view text) {
  if (value_newline_) calls_.Value("\n");
  value_newline_ = text.ends_with('\n');
  calls_.Value(text.substr(0, text.size() - (value_newline_ ? 1 : 0)));
}

void AnswerParser::DropText(std::string_view text) {
  stats_.dropped_bytes += static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsBlank(c); }));
}

}  // namespace fathom
