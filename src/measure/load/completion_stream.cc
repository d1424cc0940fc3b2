#include "measure/load/completion_stream.h"

#include <algorithm>
#include <utility>

namespace fathom::load {
namespace {

// Names the end of a complete stream.
std::string_view EndOf(LoadEndpoint endpoint) {
  switch (endpoint) {
    case LoadEndpoint::kCompletions:
    case LoadEndpoint::kChat:
      return "[DONE]";
    case LoadEndpoint::kResponses:
      return "response.completed";
    case LoadEndpoint::kMessages:
      return "message_stop";
  }
  return "";
}

}  // namespace

void CompletionStream::Take(std::string_view data, double time_s) {
  if (done_ || !error_.empty()) return;
  StreamEvent event = ReadStreamEvent(endpoint_, data);
  error_ = std::move(event.error);
  if (!error_.empty()) return;
  done_ = event.ends;
  content_ += event.content;
  const std::int64_t n_before = n_output_;
  TakeUsage(event.usage);
  if (event.counts_chunk) {
    if (n_output_ == n_before) return;
    chunks_.push_back({.time_s = time_s, .n_tokens = n_output_ - n_before});
  } else if (event.has_text) {
    chunks_.push_back({.time_s = time_s});
  }
}

void CompletionStream::TakeUsage(const StreamUsage& usage) {
  n_input_ = usage.n_input.value_or(n_input_);
  n_cached_ = usage.n_cached.value_or(n_cached_);
  n_output_ = std::max(n_output_, usage.n_output.value_or(0));
  has_usage_ = has_usage_ || usage.n_output.has_value();
}

void CompletionStream::Finish(RequestRecord* record) {
  if (!error_.empty() || !done_) {
    record->failure = "error in the stream";
    record->message =
        error_.empty() ? "it ended without " + std::string(EndOf(endpoint_)) : std::move(error_);
  }
  if (!has_usage_) {
    for (const TokenChunk& chunk : chunks_) {
      n_output_ += chunk.n_tokens;
    }
  }
  record->n_input = n_input_;
  record->n_cached = n_cached_;
  record->n_output = n_output_;
  record->chunks = std::move(chunks_);
}

}  // namespace fathom::load
