// MessageBlocks: the events of an answer -> the content blocks of a streamed message.
//
//   content_block_start  content_block_delta ...  content_block_stop      one block after the other
//
// docs/spec/serving.md section 9.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/answer_event.h"
#include "json/json_value.h"

namespace fathom {

// One message; one thread. The deltas of a block, joined, are its text, and of a call the JSON of
// its arguments. No block is empty but a call's.
class MessageBlocks {
 public:
  // `signature`, not empty, stands at the end of every thinking block: clients send it back with
  // the block, and it means nothing to us.
  explicit MessageBlocks(std::string signature) : signature_(std::move(signature)) {}

  // Appends server-sent events to `out`. What comes while a call is open and is not part of it
  // waits until it ends.
  void Add(const AnswerEvent& event, std::string* out);
  // Closes the last block.
  void End(std::string* out);

 private:
  void Write(const AnswerEvent& event, std::string* out);
  void Open(AnswerEvent::Kind kind, const JsonValue& block, std::string* out);
  void Delta(const JsonValue& delta, std::string* out) const;
  void Close(std::string* out);

  const std::string signature_;
  std::size_t index_ = 0;                  // of the open block, or of the next
  std::optional<AnswerEvent::Kind> open_;  // the event that opens such a block
  std::size_t call_ = 0;                   // of an open kCallBegin
  std::vector<AnswerEvent> waiting_;
};

}  // namespace fathom
