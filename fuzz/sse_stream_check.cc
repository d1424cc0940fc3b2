#include "fuzz/sse_stream_check.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "http/sse_reader.h"
#include "measure/load/completion_stream.h"

namespace fathom::fuzz {
namespace {

using load::LoadEndpoint;

// Small enough for a fuzzer's inputs to reach the limit, and large enough for whole events.
constexpr std::size_t kMaxBytes = 400;

struct Reading {
  std::vector<SseEvent> events;
  bool is_refused = false;
  bool is_between_events = false;
};

Reading Read(std::string_view input, std::size_t step) {
  Reading reading;
  SseReader reader(kMaxBytes);
  while (!input.empty() && !reading.is_refused) {
    const std::string_view piece = input.substr(0, step);
    input.remove_prefix(piece.size());
    const Status read =
        reader.Read(piece, [&](const SseEvent& event) { reading.events.push_back(event); });
    reading.is_refused = !read;
  }
  reading.is_between_events = reader.IsBetweenEvents();
  return reading;
}

bool IsSame(const Reading& a, const Reading& b) {
  return a.is_refused == b.is_refused &&
         (a.is_refused || a.is_between_events == b.is_between_events) &&
         std::equal(a.events.begin(), a.events.end(), b.events.begin(), b.events.end(),
                    [](const SseEvent& one, const SseEvent& other) {
                      return one.event == other.event && one.data == other.data;
                    });
}

std::string WrongEvent(const SseEvent& event) {
  const auto has = [](std::string_view text, std::string_view characters) {
    return text.find_first_of(characters) != text.npos;
  };
  if (event.event.size() > kMaxBytes) return "a type over the limit";
  if (event.data.size() > 2 * kMaxBytes + 1) return "data over the limit";
  if (has(event.event, "\r\n") || has(event.data, "\r")) return "the end of a line in an event";
  return "";
}

std::string WrongRecord(const load::RequestRecord& record, std::size_t n_events) {
  if (record.failure.empty() != record.message.empty()) return "a failure that says nothing";
  if (record.message.find_first_of("\r\n") != std::string::npos) return "a message of two lines";
  if (record.n_input < 0 || record.n_cached < 0 || record.n_output < 0) return "a negative count";
  if (record.chunks.size() > n_events) return "more chunks than events";
  double time_s = 0;
  for (const load::TokenChunk& chunk : record.chunks) {
    if (chunk.n_tokens < 1) return "a chunk without a token";
    if (chunk.time_s <= time_s) return "a chunk out of time";
    time_s = chunk.time_s;
  }
  return "";
}

std::string CheckAnswer(LoadEndpoint endpoint, const std::vector<SseEvent>& events) {
  load::CompletionStream stream(endpoint);
  double time_s = 0;
  for (const SseEvent& event : events) stream.Take(event.data, time_s += 1);
  load::RequestRecord record;
  stream.Finish(&record);
  return WrongRecord(record, events.size());
}

}  // namespace

std::string CheckSseStream(std::string_view input) {
  const Reading whole = Read(input, std::max<std::size_t>(input.size(), 1));
  for (const SseEvent& event : whole.events) {
    const std::string wrong = WrongEvent(event);
    if (!wrong.empty()) return wrong;
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}}) {
    if (!IsSame(whole, Read(input, step))) return "other events if the bytes come in pieces";
  }
  for (const LoadEndpoint endpoint : {LoadEndpoint::kCompletions, LoadEndpoint::kChat,
                                      LoadEndpoint::kResponses, LoadEndpoint::kMessages}) {
    const std::string wrong = CheckAnswer(endpoint, whole.events);
    if (!wrong.empty()) return std::string(Name(endpoint)) + ": " + wrong;
  }
  return "";
}

}  // namespace fathom::fuzz
