// ResponseEvents: writes the events of the items of a response, in their order and numbered.
//
//   output_item.added                      an item, empty
//     reasoning, message                   content_part.added, deltas, text.done, content_part.done
//     functions, custom tools              deltas, done
//   output_item.done                       the item with all it has
//
// Reasoning is a text or a summary; the item says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "json/json_value.h"

namespace fathom::api {

// Writes the stream of one response, one item after another. Used by one thread.
class ResponseEvents {
 public:
  // Events before this number are counted and not written.
  explicit ResponseEvents(std::int64_t first_number = 0) : first_number_(first_number) {}

  // Appends an event with these fields to `out`.
  void Emit(std::string_view type, JsonValue fields, std::string* out);

  // Begins an item, which equals the item in the response but is empty.
  void Open(JsonValue item, std::string* out);
  // Adds to the text, the arguments or the input of the open item. `logprobs`: for a message.
  void Add(std::string_view text, std::string* out, JsonValue logprobs = JsonValue::Array());
  // Ends the open item; `item` is whole.
  void Close(const JsonValue& item, std::string* out);

 private:
  void EmitOfItem(std::string_view type, JsonValue fields, std::string* out);

  const std::int64_t first_number_;
  std::int64_t number_ = 0;
  std::size_t n_opened_ = 0;
  std::string id_;    // id of the open item
  std::string type_;  // type of the open item
  bool is_summary_ = false;
};

// Returns all events of a stored response, from the event with the number `first_number` on: the
// events of its stream, with each text in one piece. `response`: from FinishedResponse.
std::string ReplayEvents(const JsonValue& response, std::int64_t first_number);

}  // namespace fathom::api
