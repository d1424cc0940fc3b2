// AnswerStream: what a chat shows and keeps of an answer while it is generated.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace fathom::cli {

// The reasoning and the content that a piece of the answer added.
struct AnswerDelta {
  std::string reasoning;
  std::string content;
};

// One answer of a conversation without tools. One thread.
class AnswerStream {
 public:
  explicit AnswerStream(bool starts_in_reasoning);
  ~AnswerStream();

  // Bytes of the answer, cut anywhere.
  AnswerDelta Feed(std::string_view bytes);
  // No more bytes.
  AnswerDelta Finish();

  // All there was so far.
  const std::string& reasoning() const { return all_.reasoning; }
  const std::string& content() const { return all_.content; }

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
  AnswerDelta all_;
};

}  // namespace fathom::cli
