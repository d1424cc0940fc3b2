#include "api/anthropic/messages_blocks.h"

#include "api/common/sse.h"
#include "json/json_value.h"

namespace fathom {
namespace {}  // namespace

void MessageBlocks::Add(const AnswerEvent& event, std::string* out) {
  const bool is_of_call =
      event.kind == AnswerEvent::Kind::kArgumentsDelta || event.kind == AnswerEvent::Kind::kCallEnd;
  if (open_ == AnswerEvent::Kind::kCallBegin && !(is_of_call && event.call == call_)) {
    waiting_.push_back(event);
    return;
  }
  Write(event, out);
  if (event.kind != AnswerEvent::Kind::kCallEnd) return;
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
    case AnswerEvent::Kind::kReasoningDelta:
      if (open_ != event.kind) {
        Open(event.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
      }
      Delta({{"type", "thinking_delta"}, {"thinking", event.text}}, out);
      break;
    case AnswerEvent::Kind::kContentDelta:
      if (open_ != event.kind) Open(event.kind, {{"type", "text"}, {"text", ""}}, out);
      Delta({{"type", "text_delta"}, {"text", event.text}}, out);
      break;
    case AnswerEvent::Kind::kCallBegin:
      call_ = event.call;
      Open(event.kind,
           {{"type", "tool_use"},
            {"id", event.id},
            {"name", event.name},
            {"input", JsonValue::Object()}},
           out);
      break;
    case AnswerEvent::Kind::kArgumentsDelta:
      Delta({{"type", "input_json_delta"}, {"partial_json", event.text}}, out);
      break;
    case AnswerEvent::Kind::kCallEnd:
      Close(out);
      break;
    case AnswerEvent::Kind::kFinish:
      break;
  }
}

void MessageBlocks::Open(AnswerEvent::Kind kind, const JsonValue& block, std::string* out) {
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
  if (open_ == AnswerEvent::Kind::kReasoningDelta) {
    Delta({{"type", "signature_delta"}, {"signature", signature_}}, out);
  }
  AppendSse("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}}, out);
  open_.reset();
  ++index_;
}

}  // namespace fathom
