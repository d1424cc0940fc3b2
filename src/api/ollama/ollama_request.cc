#include "api/ollama/ollama_request.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "api/common/other_endpoint.h"
#include "api/common/reasoning_fields.h"
#include "chat/literals.h"
#include "chat/messages.h"
#include "json/json_value.h"

namespace fathom::api {
namespace {

// All values below 1 mean no limit: -1 is the default, -2 is the rest of the context.
void ReadLength(FieldReader& options, SamplingParameters* sampling) {
  constexpr std::int64_t kRestOfContext = -2;
  if (options.Find("num_predict") == nullptr) return;
  std::int64_t most = 0;
  options.ReadInteger("num_predict", {.low = kRestOfContext}, &most);
  sampling->max_tokens.reset();
  if (most > 0) sampling->max_tokens = most;
}

// The server decides options for loading a model, such as num_ctx.
void ReadGeneration(FieldReader& reader, const RequestLimits& limits, GenerationFields* fields) {
  ReadModel(reader, limits, &fields->model);
  RemoveLatest(&fields->model);
  fields->stream = true;
  reader.ReadBool("stream", &fields->stream);
  reader.ReadObject("options", [&](FieldReader& options) {
    ReadSampling(options, limits, &fields->sampling);
    ReadStopStrings(options, "stop", limits, &fields->sampling);
    ReadLength(options, &fields->sampling);
  });
  ReadCacheSalt(reader, &fields->cache_salt);
  fields->sampling.top_logprobs.reset();
  if (reader.Flag("logprobs")) {
    reader.Refuse("logprobs: not supported here; the APIs of OpenAI have them");
  }
}

void ReadForm(FieldReader& reader, std::string_view body, ChatCompletionRequest* request) {
  ReadJsonOrSchema(reader, "format", &request->generation.form);
  if (request->generation.form.field.empty()) return;
  const JsonValue& format = *reader.Find("format");
  request->chat.response_format =
      format.IsObject()
          ? fmt::format(R"({{"type": "json_schema", "schema": {}}})", format.SourceIn(body))
          : R"({"type": "json_object"})";
}

// Reads the fields of both requests.
ChatCompletionRequest ReadCommon(FieldReader& reader, const RequestLimits& limits,
                                 const RequestDefaults& defaults) {
  ChatCompletionRequest request = DefaultChat(defaults);
  ReadGeneration(reader, limits, &request.generation);
  ReadReasoningFields(reader, &request.encoding);
  return request;
}

// Returns the user's message: the prompt, with a text in place of each image.
Message ReadPrompt(FieldReader& reader, std::string prompt, MediaPolicy policy) {
  Message message = {.role = Role::kUser, .content = std::move(prompt)};
  MediaParts media(policy);
  media.BeginMessage(/*is_assistant=*/false);
  reader.ReadList("images", "a list of images", [&](const JsonValue&, const std::string& path) {
    if (!message.content.empty()) message.content += kBlockJoiner;
    message.content += media.Replace("image", path);
  });
  if (media.error()) reader.Fail(*media.error());
  return message;
}

// Fields that would change the prompt and have no meaning for a model with its own format.
constexpr std::string_view kTemplateFields[] = {"template", "context"};

}  // namespace

void RemoveLatest(std::string* name) {
  constexpr std::string_view kLatest = ":latest";
  if (name->ends_with(kLatest)) name->resize(name->size() - kLatest.size());
}

Result<ChatCompletionRequest> ParseOllamaChat(const ApiBody& body, const RequestLimits& limits,
                                              const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  FieldReader reader(*json);
  RefuseOtherEndpoint(reader, "messages", PathFamily::kOllama);
  CheckToolCount(reader, "tools", limits);
  ChatCompletionRequest request = ReadCommon(reader, limits, defaults);
  if (reader.error()) return Unexpected(*reader.error());
  ReadForm(reader, body.text, &request);
  if (reader.error()) return Unexpected(*reader.error());
  if (reader.Find("messages") == nullptr) {
    const JsonValue* tools = reader.Find("tools");
    const auto read = ParseTools(tools == nullptr ? "[]" : tools->SourceIn(body.text));
    if (!read) return Unexpected(read.error());
    return request;
  }
  Result<ChatRequest> chat = ReadChatRequest(*json, body.text, {.media = defaults.media});
  if (!chat) return Unexpected(chat.error());
  // Only these are fields of this API.
  request.chat.messages = std::move(chat->messages);
  request.chat.tools = std::move(chat->tools);
  return request;
}

Result<OllamaGenerateRequest> ParseOllamaGenerate(const ApiBody& body, const RequestLimits& limits,
                                                  const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  FieldReader reader(*json);
  RefuseOtherEndpoint(reader, "prompt", PathFamily::kOllama);
  RefuseFields(reader, kTemplateFields,
               "not supported; the model has a format of its own, which raw: true leaves out, and "
               "POST /api/chat takes a history");
  OllamaGenerateRequest request = {.chat = ReadCommon(reader, limits, defaults)};
  std::string prompt = reader.Text("prompt");
  std::string system = reader.Text("system");
  std::string suffix = reader.Text("suffix");
  const bool is_raw = reader.Flag("raw") || !suffix.empty();
  Message message = ReadPrompt(reader, prompt, is_raw ? MediaPolicy::kRefuse : defaults.media);
  ReadForm(reader, body.text, &request.chat);
  if (reader.error()) return Unexpected(*reader.error());
  if (message.content.empty() && suffix.empty()) return request;
  if (is_raw) {
    request.raw_prompt = std::move(prompt);
    if (!suffix.empty()) request.suffix = std::move(suffix);
    return request;
  }
  std::vector<Message>& messages = request.chat.chat.messages;
  if (!system.empty()) messages.push_back({.role = Role::kSystem, .content = std::move(system)});
  messages.push_back(std::move(message));
  return request;
}

}  // namespace fathom::api
