#include "api/anthropic/messages_blocks.h"

#include "api/common/sse.h"
#include "json/json_value.h"

namespace fathom {
namespace {

using Kind = AnswerEvent::Kind;

}  // namespace

void MessageBlocks::Add(const AnswerEvent& event, std::string* out) {
  const bool is_of_call = event.kind == Kind::kArgumentsDelta || event.kind == Kind::kCallEnd;
  if (open_ == Kind::kCallBegin && !(is_of_call && event.call == call_)) {
    waiting_.push_back(event);
    return;
  }
  Write(event, out);
  if (event.kind != Kind::kCallEnd) return;
  for (const AnswerEvent& next : std::exchange(waiting_, {})) Add(next, out);
}

void MessageBlocks::End(std::string* out) {
  Close(out);
  // Happens only if a call never ended; the parser ends all calls.
  for (const AnswerEvent& next : std::exchange(waiting_, {})) Write(next, out);
  Close(out);
}

void MessageBlocks::Write(const AnswerEvent& event, std::string* out) {
  switch (event.kind) {
    case Kind::kReasoningDelta:
      if (open_ != event.kind) {
        Open(event.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
      }
      Delta({{"type", "thinking_delta"}, {"thinking", event.text}}, out);
      break;
    case Kind::kContentDelta:
      if (open_ != event.kind) Open(event.kind, {{"type", "text"}, {"text", ""}}, out);
      Delta({{"type", "text_delta"}, {"text", event.text}}, out);
      break;
    case Kind::kCallBegin:
      call_ = event.call;
      Open(event.kind,
           {{"type", "tool_use"},
            {"id", event.id},
            {"name", event.name},
            {"input", JsonValue::Object()}},
           out);
      break;
    case Kind::kArgumentsDelta:
      Delta({{"type", "input_json_delta"}, {"partial_json", event.text}}, out);
      break;
    case Kind::kCallEnd:
      Close(out);
      break;
    case Kind::kFinish:
      break;
  }
}

void MessageBlocks::Open(Kind kind, const JsonValue& block, std::string* out) {
  Close(out);
  open_ = kind;
  AppendSse("content_block_start",
            {{"type", "content_block_start"}, {"index", index_}, {"content_block", block}}, out);
}

void MessageBlocks::Delta(const JsonValue& delta, std::string* out) const {
  AppendSse("content_block_delta",
            {{"type", "content_block_delta"}, {"index", index_}, {"delta", delta}}, out);
}

void MessageBlocks::Close(std::string* out) {
  if (!open_) return;
  if (open_ == Kind::kReasoningDelta) {
    Delta({{"type", "signature_delta"}, {"signature", signature_}}, out);
  }
  AppendSse("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}}, out);
  open_.reset();
  ++index_;
}

}  // namespace fathom
