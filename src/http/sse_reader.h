// SseReader: reads server-sent events from the pieces of a stream.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom::http {

struct SseEvent {
  std::string event;  // its type; "" if it has none
  std::string data;   // its data lines, with a line feed between them
};

// Pieces may be cut anywhere; lines end with LF, CR LF or CR. Skips comments, the fields `id` and
// `retry`, and events without data. Linear in the length of the stream.
class SseReader {
 public:
  // max_bytes: limit of one line, and of the data of one event.
  explicit SseReader(std::size_t max_bytes = std::size_t{16} << 20) : max_bytes_(max_bytes) {}

  // Calls `take` for every event that the piece completes. Errors (kInvalidData): an event exceeds
  // the limit; the reader cannot be used any more.
  Status Read(std::string_view piece, const std::function<void(const SseEvent&)>& take);

  // Returns whether the stream may end here: no event is incomplete.
  bool IsBetweenEvents() const { return line_.empty() && event_.event.empty() && !has_data_; }

 private:
  void TakeLine(const std::function<void(const SseEvent&)>& take);

  const std::size_t max_bytes_;
  std::string line_;  // the received part of the line
  SseEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed now ends the previous line
  bool is_first_line_ = true;
};

}  // namespace fathom::http
