// StreamEvent: what one event of a streamed answer says, whichever API it is of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "measure/load/load_endpoint.h"

namespace fathom::load {

// Counts of tokens; missing: the event does not say.
struct StreamUsage {
  std::optional<std::int64_t> n_input;
  std::optional<std::int64_t> n_cached;  // of those of the input
  std::optional<std::int64_t> n_output;  // so far
};

struct StreamEvent {
  bool has_text = false;  // of any kind: reasoning and arguments of calls too
  std::string content{};  // of that, what belongs to the visible text
  StreamUsage usage{};
  bool counts_chunk = false;  // `usage` says how many tokens this event and those before it brought
  bool ends = false;          // as the API ends a stream
  std::string error{};        // the stream has failed
};

// `data` of one event of a stream of `endpoint`. What is no event of that API is an error; events
// that mean nothing here are empty.
StreamEvent ReadStreamEvent(LoadEndpoint endpoint, std::string_view data);

// The message of an error body of OpenAI or Anthropic; the start of the body where it is neither.
std::string ErrorMessageOf(std::string_view body);

}  // namespace fathom::load
