#include "load/completion_stream.h"

#include <algorithm>

#include "api/field_reader.h"

namespace fathom::load {
namespace {

constexpr std::size_t kLongestMessage = 300;

// Blanks in place of what would break a line of a report, and an end.
std::string OneLine(std::string_view text) {
  std::string line(text.substr(0, kLongestMessage));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text.size() > kLongestMessage ? line + "..." : line;
}

std::string_view StringOf(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value != nullptr && value->IsString() ? std::string_view(value->text) : "";
}

std::int64_t CountOf(const JsonValue& object, std::string_view key) {
  std::int64_t count = 0;
  FieldReader(object).ReadInteger(key, {.low = 0}, &count);
  return count;
}

std::string MessageOf(const JsonValue& error) {
  return OneLine(error.IsString() ? error.text : StringOf(error, "message"));
}

}  // namespace

std::string ErrorMessageOf(std::string_view body) {
  const Result<JsonValue> json = ParseJson(body);
  const JsonValue* error = json ? json->Find("error") : nullptr;
  const std::string message = error != nullptr ? MessageOf(*error) : "";
  return message.empty() ? OneLine(body) : message;
}

void CompletionStream::Take(std::string_view data, double time_s) {
  if (done_ || !error_.empty()) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Result<JsonValue> chunk = ParseJson(data);
  if (!chunk || !chunk->IsObject()) {
    error_ = chunk ? "an event is no JSON object" : "an event is no JSON: " + chunk.error().message;
    return;
  }
  const JsonValue* error = chunk->Find("error");
  if (error != nullptr && !error->IsNull()) {
    error_ = MessageOf(*error);
    if (error_.empty()) error_ = "an error without a message";
    return;
  }
  const bool has_text = TakeText(*chunk);
  const JsonValue* usage = chunk->Find("usage");
  const JsonValue* choices = chunk->Find("choices");
  const bool has_choices = choices != nullptr && !choices->items.empty();
  if (usage == nullptr || !usage->IsObject()) {
    if (has_text) chunks_.push_back({.time_s = time_s});
    return;
  }
  const std::int64_t n_before = n_output_;
  TakeUsage(*usage);
  // The usage at the end stands alone: its tokens came with the chunks before.
  if (has_choices && n_output_ > n_before) {
    chunks_.push_back({.time_s = time_s, .n_tokens = n_output_ - n_before});
  }
}

void CompletionStream::TakeUsage(const JsonValue& usage) {
  has_usage_ = true;
  n_input_ = CountOf(usage, "prompt_tokens");
  n_output_ = std::max(n_output_, CountOf(usage, "completion_tokens"));
  const JsonValue* details = usage.Find("prompt_tokens_details");
  if (details != nullptr && details->IsObject()) n_cached_ = CountOf(*details, "cached_tokens");
}

bool CompletionStream::TakeText(const JsonValue& chunk) {
  const JsonValue* choices = chunk.Find("choices");
  if (choices == nullptr || !choices->IsArray()) return false;
  bool has_text = false;
  for (const JsonValue& choice : choices->items) {
    has_text = has_text || !StringOf(choice, "text").empty();
    const JsonValue* delta = choice.Find("delta");
    if (delta == nullptr) continue;
    content_ += StringOf(*delta, "content");
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      has_text = has_text || !StringOf(*delta, key).empty();
    }
    const JsonValue* calls = delta->Find("tool_calls");
    has_text = has_text || (calls != nullptr && !calls->items.empty());
  }
  return has_text;
}

void CompletionStream::Finish(RequestRecord* record) {
  if (!error_.empty() || !done_) {
    record->failure = "error in the stream";
    record->message = error_.empty() ? "it ended without [DONE]" : error_;
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
