#include "chat/media_parts.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

struct Medium {
  std::string_view word;    // in the types of all APIs: image_url, input_image, image
  std::string_view name;    // in a prompt
  std::string_view plural;  // in an error
};

constexpr Medium kMedia[] = {
    {"image", "Image", "images"},  {"screenshot", "Image", "images"},
    {"audio", "Audio", "audio"},   {"video", "Video", "videos"},
    {"file", "Document", "files"}, {"document", "Document", "files"},
};

}  // namespace

void MediaParts::BeginMessage(bool is_assistant) {
  const bool begins_turn = after_assistant_ && !is_assistant;
  if (begins_turn && policy_ == MediaPolicy::kEarlier) error_.reset();
  after_assistant_ = is_assistant;
}

std::string MediaParts::Replace(std::string_view type, const std::string& path) {
  const std::string shown = ShortenedUtf8(type, kQuotedBytes);
  Medium medium = {.word = "", .name = shown, .plural = "other parts"};
  for (const Medium& known : kMedia) {
    if (type.find(known.word) != std::string_view::npos) {
      medium = known;
      break;
    }
  }
  if (policy_ != MediaPolicy::kAll && !error_) {
    error_ =
        Error{ErrorCode::kInvalidArgument,
              fmt::format("{}.type: expected text (this model reads text only and does not "
                          "support {}), found {}",
                          path, medium.plural, type.empty() ? "nothing" : PythonJsonString(shown))};
  }
  return fmt::format("[Unsupported {}]", medium.name);
}

}  // namespace fathom::chat
