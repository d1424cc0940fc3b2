#include "cli/answer_stream.h"

#include <cstdint>
#include <vector>

#include "chat/parser.h"

namespace fathom::cli {
namespace {

// No tools: the markup of calls is text, and nobody asks for the ids of calls.
AnswerParserOptions ParserOptions(bool starts_in_reasoning) {
  return {.starts_in_reasoning = starts_in_reasoning, .tools = ToolSchemas(), .random_bits = [] {
            return std::uint64_t{0};
          }};
}

AnswerDelta Collect(const std::vector<AnswerEvent>& events) {
  AnswerDelta delta;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kReasoningDelta) {
      delta.reasoning += event.text;
    } else if (event.kind == AnswerEvent::Kind::kContentDelta) {
      delta.content += event.text;
    }
  }
  return delta;
}

}  // namespace

struct AnswerStream::Impl {
  AnswerParser parser;
};

AnswerStream::AnswerStream(bool starts_in_reasoning)
    : impl_(new Impl{.parser = AnswerParser(ParserOptions(starts_in_reasoning))}) {}

AnswerStream::~AnswerStream() = default;

AnswerDelta AnswerStream::Feed(std::string_view bytes) {
  AnswerDelta delta = Collect(impl_->parser.Feed(bytes));
  all_.reasoning += delta.reasoning;
  all_.content += delta.content;
  return delta;
}

AnswerDelta AnswerStream::Finish() {
  AnswerDelta delta = Collect(impl_->parser.Finish(AnswerEnd::kStop));
  all_.reasoning += delta.reasoning;
  all_.content += delta.content;
  return delta;
}

}  // namespace fathom::cli
