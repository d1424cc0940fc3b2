// StreamEvent: the content of one event of a streamed answer, for every API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "measure/load/load_endpoint.h"

namespace fathom::load {

// Counts of tokens; missing: not in the event.
struct StreamUsage {
  std::optional<std::int64_t> n_input;
  std::optional<std::int64_t> n_cached;  // input tokens from the server's cache
  std::optional<std::int64_t> n_output;  // so far
};

struct StreamEvent {
  bool has_text = false;  // text of any kind, with reasoning and arguments of calls
  std::string content{};  // the visible part of the text
  StreamUsage usage{};
  bool counts_chunk = false;  // `usage` counts the tokens up to this event
  bool ends = false;          // this event ends the stream
  std::string error{};        // the stream has failed
};

// Reads `data` of one event of a stream of `endpoint`. Data that is no event of that API is an
// error; irrelevant events are empty.
StreamEvent ReadStreamEvent(LoadEndpoint endpoint, std::string_view data);

// Returns the message of an error body of OpenAI or Anthropic; the start of any other body.
std::string ErrorMessageOf(std::string_view body);

}  // namespace fathom::load
