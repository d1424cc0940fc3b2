#include "chat/parser.h"

#include <algorithm>
#include <utility>

#include "chat/literals.h"

namespace fathom::chat {
namespace {

using Outcome = TagScan::Outcome;

// Returns true if the text begins with this bracket and the token ｜DSML｜.
bool HasToken(std::string_view text, std::string_view bracket) {
  return text.starts_with(bracket) && text.substr(bracket.size()).starts_with(kDsml);
}

}  // namespace

AnswerParser::AnswerParser(AnswerParserOptions options)
    : options_(std::move(options)),
      reads_calls_(!options_.tools || !options_.tools->empty()),
      calls_(options_, &events_),
      state_(options_.starts_in_reasoning ? State::kReasoning : State::kContent) {}

std::vector<AnswerEvent> AnswerParser::Feed(std::string_view bytes) {
  utf8_.Push(bytes, buffer_);
  Run();
  return events_.Take();
}

std::vector<AnswerEvent> AnswerParser::Finish(AnswerEnd end) {
  // At a length stop, a partial character is dropped like a partial marker: it may have belonged to
  // one.
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

// Parses a part of the remaining text, which is not empty. Returns false if more text is needed
// first; never after the end.
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
  if (scan.outcome == Outcome::kIncomplete) return FinishTail("", false);
  if (scan.outcome == Outcome::kNoTag) {
    EmitText("<");
    ++position_;
    return true;
  }
  if (reads_calls_ && MayStartCall(scan.tag)) return TryStartCall(scan.tag);
  if (reads_calls_ && MayEndReasoning(scan.tag)) return TryEndReasoning(scan.tag);
  position_ += TakeTextTag(scan.tag);
  return true;
}

// Handles a tag that does not open a call. Returns the number of its bytes that are processed.
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
  // Emits only the bracket of a tag that is text: the rest may contain another tag.
  if (is_markup) return tag.bytes;
  EmitText("<");
  return 1;
}

bool AnswerParser::MayStartCall(const Tag& tag) const {
  if (tag.kind != TagKind::kBlockOpen && tag.kind != TagKind::kInvokeOpen) return false;
  if (state_ != State::kReasoning) return true;
  // Reasoning may mention a marker; a block of calls begins at the start of a line.
  const bool at_line_start = held_newlines_ > 0 || !has_reasoning_;
  return (at_line_start || ends_with_calls_) && tag.kind == TagKind::kBlockOpen;
}

// Returns true for a block within a line of the reasoning, which MayStartCall does not accept.
bool AnswerParser::MayEndReasoning(const Tag& tag) const {
  return state_ == State::kReasoning && tag.is_dsml && tag.kind == TagKind::kBlockOpen;
}

// Returns true if a call that begins here is the one whose opener was in the prompt: no content
// precedes it.
bool AnswerParser::IsGivenCall() const {
  return options_.begins_with_call && state_ == State::kContent;
}

bool AnswerParser::TryStartCall(const Tag& tag) {
  const CallOpening opening = ReadCallOpening(rest(), tag,
                                              {.tools = options_.tools,
                                               .in_block = state_ == State::kBlock,
                                               .skips_junk = state_ != State::kReasoning,
                                               .is_given = IsGivenCall(),
                                               .is_over = end_.has_value()});
  const bool is_block_of_reasoning =
      state_ == State::kReasoning && opening.kind == CallOpening::Kind::kEmptyBlock;
  if (opening.kind == CallOpening::Kind::kIncomplete) {
    return end_ && FinishTail(opening.name, opening.in_block);
  }
  if (opening.kind == CallOpening::Kind::kNone || is_block_of_reasoning) {
    TakeMention(tag);
  } else {
    StartCall(opening);
  }
  return true;
}

// A block of calls within a line of the reasoning is recognized if it ends the answer. At a limit
// it is not recognized: the model might have continued.
bool AnswerParser::TryEndReasoning(const Tag& tag) {
  const TrailingBlock::Verdict verdict = trailing_block_.Read(rest());
  if (!end_ && verdict != TrailingBlock::Verdict::kText) return false;
  trailing_block_ = {};
  ends_with_calls_ = end_ == AnswerEnd::kStop && verdict == TrailingBlock::Verdict::kWhole;
  if (!ends_with_calls_) TakeMention(tag);
  return true;
}

// Takes the opener of a block or call as text.
void AnswerParser::TakeMention(const Tag& tag) {
  if (tag.is_dsml) ++stats_.failed_blocks;
  position_ += TakeTextTag(tag);
}

void AnswerParser::StartCall(const CallOpening& opening) {
  if (opening.kind == CallOpening::Kind::kBody) {
    body_origin_ = state_;
    body_in_block_ = opening.in_block;
    body_opening_ = rest().substr(0, opening.bytes);
    body_tool_ = opening.name;
    state_ = State::kBody;
  } else if (opening.kind == CallOpening::Kind::kCall) {
    CommitCall(opening.name, opening.in_block);
  } else {
    held_newlines_ = 0;  // an empty block
  }
  position_ += opening.bytes;
}

void AnswerParser::CommitCall(std::string_view name, bool in_block) {
  held_newlines_ = 0;
  in_block_ = in_block;
  state_ = State::kInvoke;
  calls_.Begin(name);
}

// The model or a stop condition has ended the call.
void AnswerParser::EndCall(bool is_complete) {
  calls_.End(is_complete);
  state_ = in_block_ ? State::kBlock : State::kAfter;
}

// Parses the text between the parameters of a call.
void AnswerParser::StepInvoke(const TagScan& scan) {
  // The closer of the call has begun: no more arguments can follow.
  const bool is_cut_closer = scan.outcome == Outcome::kIncomplete && HasToken(rest(), "</");
  if (is_cut_closer) EndCall(true);
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
      if (!MayBeInvoke(scan.tag, options_.tools)) break;
      [[fallthrough]];
    case TagKind::kBlockClose:
      EndCall(true);  // the closer is missing; the next tag is parsed from its beginning
      return;
    default:  // a stray closer or think tag
      break;
  }
  position_ += scan.tag.bytes;
}

// Returns true in a DSML value where a plain tag may begin, which is text there. Its name may
// contain any characters, so that its end may be searched after the closer of the value.
bool AnswerParser::IsTextInDsml(const TagScan& scan) const {
  return state_ == State::kValue && value_is_dsml_ && scan.outcome == Outcome::kIncomplete &&
         IsPlainTail(rest());
}

// Returns true if the rest, which ends the text inside a value, is a cut tag rather than text. At a
// limit, everything that may be a tag counts as one: in a value a bracket nearly always begins the
// closer.
bool AnswerParser::IsCutMarkup() const {
  return end_ == AnswerEnd::kLength || BeginsWithDsmlToken(rest());
}

// Inside a value, only markup of the same family is structure: the closer or, if that is missing,
// the tag of the next parameter or call.
void AnswerParser::StepValue(const TagScan& scan) {
  if (scan.outcome == Outcome::kIncomplete && IsCutMarkup()) {
    // The newline precedes the opener of another parameter, where the closer is missing.
    if (end_ == AnswerEnd::kLength && HasToken(rest(), "<")) value_newline_ = false;
    position_ = buffer_.size();
    return;
  }
  const TagKind kind = scan.tag.kind;
  const bool is_text = scan.outcome != Outcome::kTag || kind == TagKind::kThinkOpen ||
                       kind == TagKind::kThinkClose || kind == TagKind::kBlockOpen ||
                       (value_is_dsml_ && !scan.tag.is_dsml) ||
                       (kind == TagKind::kInvokeOpen && !MayBeInvoke(scan.tag, options_.tools));
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

// Parses a JSON object that replaces parameters; it ends at the first tag that ends or begins a
// call or block.
void AnswerParser::StepBody(const TagScan& scan) {
  if (scan.outcome == Outcome::kIncomplete && IsCutMarkup()) {
    position_ = buffer_.size();
    return;
  }
  const TagKind kind = scan.tag.kind;
  const bool opens_call = kind == TagKind::kInvokeOpen && MayBeInvoke(scan.tag, options_.tools);
  if (scan.outcome == Outcome::kTag &&
      (opens_call || kind == TagKind::kInvokeClose || kind == TagKind::kBlockClose)) {
    EndBody();
    return;
  }
  body_.push_back('<');
  ++position_;
}

// The tag that ended the body is not consumed: it is then parsed as the end of a call or as text.
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
  // Emits all of the body as text, except think tags.
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

// The text ended where a tag or a call might have begun: this is text, except markup that a limit
// cut. `tool`: the tool of a call whose opener is whole, or "".
bool AnswerParser::FinishTail(std::string_view tool, bool in_block) {
  const bool is_cut = end_ == AnswerEnd::kLength && reads_calls_ && BeginsWithDsmlToken(rest());
  if (is_cut) {
    if (!tool.empty()) CommitCall(tool, in_block);
    held_newlines_ = 0;
    position_ = buffer_.size();
    return true;
  }
  if (ScanTag(rest()).outcome == Outcome::kTag) ++stats_.failed_blocks;
  EmitText("<");
  ++position_;
  return true;
}

void AnswerParser::FinishState() {
  const bool is_cut = end_ == AnswerEnd::kLength;
  if (state_ == State::kBody && is_cut) {
    calls_.Begin(body_tool_);
    calls_.CutWhole(body_);
    held_newlines_ = 0;
    state_ = State::kAfter;
  } else if (state_ == State::kBody) {
    EndBody();
  }
  if (state_ == State::kValue && value_newline_) calls_.Value("\n");
  if (is_cut && (state_ == State::kValue || state_ == State::kInvoke)) {
    calls_.Cut();
    state_ = State::kAfter;
  }
  if (state_ == State::kValue) {
    calls_.EndParameter();
    EndCall(false);
  }
  if (state_ == State::kInvoke) EndCall(true);
  FlushNewlines();
}

// Emits text in the states that read text.
void AnswerParser::EmitText(std::string_view text) {
  if (state_ == State::kBlock || state_ == State::kAfter) return DropText(text);
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
  stats_.dropped_bytes += static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return kTagBlanks.find(c) == kTagBlanks.npos; }));
}

}  // namespace fathom::chat
