// Writes messages of Anthropic's API: whole, streamed block by block, and errors.
// docs/spec/serving.md sections 7 and 9.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/common/answer_format.h"
#include "api/common/api_error.h"
#include "chat/answer_event.h"
#include "json/json_value.h"

namespace fathom::api {

std::unique_ptr<AnswerFormat> MakeMessagesFormat();

// Returns the HTTP status: error.status, but 529 for an overloaded server.
int MessagesStatus(const ApiError& error);

// Writes {"type": "error", "error": {"type": ..., "message": ...}, "request_id": ...}; the request
// id only if it is known. The type follows from the status. The message names the field, because
// the format has no separate place for it. For a prompt that is too long, the message is "prompt is
// too long: X tokens > Y maximum", for which Claude Code looks.
JsonValue MessagesErrorJson(const ApiError& error);

// Writes the events of an answer as the content blocks of a streamed message.
//
//   content_block_start  content_block_delta ...  content_block_stop      one block after another
//
// Serves one message in one thread. The joined deltas of a block are its text, or the JSON of a
// call's arguments, which ends at the place where a limit cut the call. Only the block of a call
// may be empty.
class MessageBlocks {
 public:
  // A non-empty `signature` ends every thinking block: clients send it back with the block, and the
  // server ignores it. If it is empty, the text of the thinking is hidden, and the block's
  // signature contains it (MakeReasoningToken).
  explicit MessageBlocks(std::string signature) : signature_(std::move(signature)) {}

  // Appends server-sent events to `out`. Events that arrive while a call is open, and do not belong
  // to it, wait until the call ends.
  void Add(const AnswerEvent& event, std::string* out);
  // Closes the last block.
  void End(std::string* out);

 private:
  void Write(const AnswerEvent& event, std::string* out);
  void Open(AnswerEvent::Kind kind, const JsonValue& block, std::string* out);
  void Delta(const JsonValue& delta, std::string* out) const;
  void Close(std::string* out);

  const std::string signature_;
  std::string hidden_;                     // the thinking that is not shown
  std::size_t index_ = 0;                  // index of the open block, or of the next one
  std::optional<AnswerEvent::Kind> open_;  // the event that opened the block
  std::size_t call_ = 0;                   // index of an open kCallBegin
  std::vector<AnswerEvent> waiting_;
};

}  // namespace fathom::api
