// MediaParts: replaces parts of messages that are not text, such as images, for a model that reads
// only text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom::chat {

enum class MediaPolicy {
  kEarlier,  // replace parts of earlier turns, which a client cannot remove, by a text
  kAll,      // replace parts of the last turn of the user, too
  kRefuse,   // replace none
};

// Replaces the parts of one conversation. Used by one thread.
class MediaParts {
 public:
  explicit MediaParts(MediaPolicy policy) : policy_(policy) {}

  // Call before the parts of each message. A turn of the user consists of everything between two
  // messages of the assistant.
  void BeginMessage(bool is_assistant);

  // Returns the text that replaces a part: [Unsupported Image], or Document (the words of
  // DeepSeek's converter), or Audio, Video, or the type itself if it is unknown. `path` names the
  // part.
  std::string Replace(std::string_view type, const std::string& path);

  // Returns the error of the first part so far that must not be replaced: path.type: expected text
  // (this model reads text only and does not support images), found "image_url".
  const std::optional<Error>& error() const { return error_; }

 private:
  const MediaPolicy policy_;
  bool after_assistant_ = false;
  std::optional<Error> error_;
};

}  // namespace fathom::chat
