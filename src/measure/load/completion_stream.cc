#include "measure/load/completion_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::measure::load {
namespace {

// Counts of tokens; none: the event has no such count.
struct StreamUsage {
  std::optional<std::int64_t> n_input;
  std::optional<std::int64_t> n_cached;  // input tokens from the server's cache
  std::optional<std::int64_t> n_output;  // output tokens so far
};

// The content of one event, for every API.
struct StreamEvent {
  bool has_text = false;  // text of any kind, including reasoning and arguments of calls
  std::string content{};  // the visible part of the text
  StreamUsage usage{};
  bool counts_chunk = false;  // `usage` counts the tokens up to this event
  bool ends = false;          // this event ends the stream
  std::string error{};        // the stream has failed
};

constexpr std::size_t kLongestMessage = 300;

// Replaces control characters, which would break the line of a report, and cuts long text.
std::string OneLine(std::string_view text) {
  std::string line(text.substr(0, kLongestMessage));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text.size() > kLongestMessage ? line + "..." : line;
}

// Returns the member if it is an object; otherwise nullptr.
const JsonValue* FindObject(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value != nullptr && value->IsObject() ? value : nullptr;
}

std::optional<std::int64_t> FindCount(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  if (value == nullptr || value->IsNull()) return std::nullopt;
  std::int64_t count = 0;
  FieldReader(object).ReadInteger(key, {.low = 0}, &count);
  return count;
}

std::string ErrorMessage(const JsonValue& error) {
  return OneLine(error.IsString() ? error.text() : error.FindText("message"));
}

std::string DescribeFailure(const JsonValue* error) {
  const std::string message = error == nullptr ? "" : ErrorMessage(*error);
  return message.empty() ? "an error without a message" : message;
}

// The names of the usage in the two forms of OpenAI's APIs.
struct UsageNames {
  const char* input;
  const char* details;
  const char* output;
};
constexpr UsageNames kChatUsage = {"prompt_tokens", "prompt_tokens_details", "completion_tokens"};
constexpr UsageNames kResponsesUsage = {"input_tokens", "input_tokens_details", "output_tokens"};

StreamUsage ReadUsage(const JsonValue& usage, const UsageNames& names) {
  const JsonValue* details = FindObject(usage, names.details);
  return {.n_input = FindCount(usage, names.input).value_or(0),
          .n_cached = details == nullptr ? std::nullopt : FindCount(*details, "cached_tokens"),
          .n_output = FindCount(usage, names.output).value_or(0)};
}

// Reads Anthropic's usage: three counts together are the prompt's tokens, and the last event has
// the output's.
StreamUsage MessagesUsage(const JsonValue& usage) {
  const std::optional<std::int64_t> computed = FindCount(usage, "input_tokens");
  const std::optional<std::int64_t> cached = FindCount(usage, "cache_read_input_tokens");
  const std::int64_t created = FindCount(usage, "cache_creation_input_tokens").value_or(0);
  StreamUsage read = {.n_input = computed, .n_cached = cached, .n_output = {}};
  if (computed) *read.n_input += cached.value_or(0) + created;
  read.n_output = FindCount(usage, "output_tokens");
  return read;
}

void TakeChoices(const JsonValue& choices, StreamEvent* event) {
  for (const JsonValue& choice : choices.items()) {
    event->has_text = event->has_text || !choice.FindText("text").empty();
    const JsonValue* delta = choice.Find("delta");
    if (delta == nullptr) continue;
    event->content += delta->FindText("content");
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      event->has_text = event->has_text || !delta->FindText(key).empty();
    }
    const JsonValue* calls = delta->Find("tool_calls");
    event->has_text = event->has_text || (calls != nullptr && !calls->items().empty());
  }
}

// Reads a chunk of /v1/completions or /v1/chat/completions.
void ReadCompletionChunk(const JsonValue& chunk, StreamEvent* event) {
  const JsonValue* choices = chunk.Find("choices");
  if (choices != nullptr && choices->IsArray()) TakeChoices(*choices, event);
  const JsonValue* usage = FindObject(chunk, "usage");
  if (usage == nullptr) return;
  event->usage = ReadUsage(*usage, kChatUsage);
  // The usage at the end has no choices: its tokens came with earlier chunks.
  event->counts_chunk = choices != nullptr && !choices->items().empty();
}

void ReadResponsesEvent(const JsonValue& json, StreamEvent* event) {
  const std::string_view type = json.FindText("type");
  if (type.ends_with(".delta")) {
    const std::string_view delta = json.FindText("delta");
    event->has_text = !delta.empty();
    if (type == "response.output_text.delta") event->content = delta;
    return;
  }
  const bool has_failed = type == "response.failed";
  event->ends = has_failed || type == "response.completed" || type == "response.incomplete";
  const JsonValue* response = event->ends ? FindObject(json, "response") : nullptr;
  if (has_failed)
    event->error = DescribeFailure(response == nullptr ? nullptr : response->Find("error"));
  const JsonValue* usage = response == nullptr ? nullptr : FindObject(*response, "usage");
  if (usage != nullptr) event->usage = ReadUsage(*usage, kResponsesUsage);
}

void ReadMessagesEvent(const JsonValue& json, StreamEvent* event) {
  const std::string_view type = json.FindText("type");
  const JsonValue* delta = FindObject(json, "delta");
  if (type == "content_block_delta" && delta != nullptr) {
    for (const char* key : {"text", "thinking", "partial_json"}) {
      event->has_text = event->has_text || !delta->FindText(key).empty();
    }
    event->content = delta->FindText("text");
  }
  event->ends = type == "message_stop";
  const JsonValue* holder = type == "message_start"   ? FindObject(json, "message")
                            : type == "message_delta" ? &json
                                                      : nullptr;
  const JsonValue* usage = holder == nullptr ? nullptr : FindObject(*holder, "usage");
  if (usage == nullptr) return;
  event->usage = MessagesUsage(*usage);
  // The first event counts a token that has not been sent yet.
  if (type == "message_start") event->usage.n_output.reset();
}

// Reads `data` of one event of a stream of `endpoint`. Data that is not an event of that API is an
// error; irrelevant events are empty.
StreamEvent ReadStreamEvent(LoadEndpoint endpoint, std::string_view data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.ends = endpoint == LoadEndpoint::kCompletions || endpoint == LoadEndpoint::kChat;
    return event;
  }
  const Result<JsonValue> json = ParseJson(data);
  if (!json || !json->IsObject()) {
    event.error =
        json ? "an event is no JSON object" : "an event is no JSON: " + json.error().message;
    return event;
  }
  const JsonValue* error = json->Find("error");
  if (error != nullptr && !error->IsNull()) {
    event.error = DescribeFailure(error);
  } else if (json->FindText("type") == "error") {
    event.error = DescribeFailure(&*json);  // the Responses API has the message in the event itself
  } else if (endpoint == LoadEndpoint::kResponses) {
    ReadResponsesEvent(*json, &event);
  } else if (endpoint == LoadEndpoint::kMessages) {
    ReadMessagesEvent(*json, &event);
  } else {
    ReadCompletionChunk(*json, &event);
  }
  return event;
}

// Names the end of a complete stream.
std::string_view EndMark(LoadEndpoint endpoint) {
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

std::string FindErrorMessage(std::string_view body) {
  const Result<JsonValue> json = ParseJson(body);
  const JsonValue* error = json ? json->Find("error") : nullptr;
  const std::string message = error != nullptr ? ErrorMessage(*error) : "";
  return message.empty() ? OneLine(body) : message;
}

void CompletionStream::Take(std::string_view data, double time_s) {
  if (done_ || !error_.empty()) return;
  StreamEvent event = ReadStreamEvent(endpoint_, data);
  error_ = std::move(event.error);
  if (!error_.empty()) return;
  done_ = event.ends;
  content_ += event.content;
  const std::int64_t n_before = n_output_;
  n_input_ = event.usage.n_input.value_or(n_input_);
  n_cached_ = event.usage.n_cached.value_or(n_cached_);
  n_output_ = std::max(n_output_, event.usage.n_output.value_or(0));
  has_usage_ = has_usage_ || event.usage.n_output.has_value();
  if (event.counts_chunk) {
    if (n_output_ == n_before) return;
    chunks_.push_back({.time_s = time_s, .n_tokens = n_output_ - n_before});
  } else if (event.has_text) {
    chunks_.push_back({.time_s = time_s});
  }
}

void CompletionStream::Finish(RequestRecord* record) {
  if (!error_.empty() || !done_) {
    record->failure = "error in the stream";
    record->message =
        error_.empty() ? "it ended without " + std::string(EndMark(endpoint_)) : std::move(error_);
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

}  // namespace fathom::measure::load
