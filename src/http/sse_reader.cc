#include "http/sse_reader.h"

#include <algorithm>

namespace fathom::http {

Status SseReader::Read(std::string_view piece, const std::function<void(const SseEvent&)>& take) {
  while (!piece.empty()) {
    if (after_return_ && piece.front() == '\n') piece.remove_prefix(1);
    if (piece.empty()) {
      after_return_ = false;
      break;
    }
    after_return_ = false;
    const std::size_t end = std::min(piece.find_first_of("\r\n"), piece.size());
    if (line_.size() + end > max_bytes_ || event_.data.size() > max_bytes_) {
      return MakeError(ErrorCode::kInvalidData, "a server-sent event has more than {} bytes",
                       max_bytes_);
    }
    line_ += piece.substr(0, end);
    if (end == piece.size()) break;
    after_return_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    TakeLine(take);
    line_.clear();
  }
  return {};
}

void SseReader::TakeLine(const std::function<void(const SseEvent&)>& take) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line = line_;
  if (is_first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  is_first_line_ = false;
  if (line.empty()) {
    if (has_data_) take(event_);
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);  // "" for a comment
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_.event = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
}

}  // namespace fathom::http
