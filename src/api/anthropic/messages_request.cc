#include "api/anthropic/messages_request.h"

#include <utility>

#include "api/anthropic/messages_tools.h"
#include "api/common/generation_fields.h"
#include "api/common/other_endpoint.h"
#include "api/common/reasoning_fields.h"
#include "api/common/sampling_aliases.h"

namespace fathom::api {
namespace {

void ReadMessagesGeneration(FieldReader& reader, const RequestLimits& limits,
                            GenerationFields* fields) {
  ReadModel(reader, limits, &fields->model);
  ReadSampling(reader, limits, &fields->sampling);
  ReadStopStrings(reader, "stop_sequences", limits, &fields->sampling);
  for (const std::string_view key : kLengthNames) {
    ReadMaxTokens(reader, key, 1, &fields->sampling);
  }
  reader.ReadBool("ignore_eos",
                  &fields->sampling.ignore_eos);  // an extension: load tests ask for exact lengths
  ReadCacheSalt(reader, &fields->cache_salt);
  reader.ReadBool("stream", &fields->stream);
  fields->sampling.top_logprobs.reset();  // the response has no field for them
}

// Reads output_config.format, or output_format, its older name. Both are strict.
void ReadMessagesFormat(FieldReader& reader, std::string_view body,
                        ChatCompletionRequest* request) {
  ContentForm& form = request->generation.form;
  ReadFormFields(reader, &form);
  const JsonValue* output = reader.Find("output_config");
  const std::pair<std::string, const JsonValue*> formats[] = {
      {"output_config.format", output == nullptr ? nullptr : output->Find("format")},
      {"output_format", reader.Find("output_format")}};
  for (const auto& [field, format] : formats) {
    ReadFormat(reader, format, field, FormStrictness::kAlways, &form);
    if (form.field == field) request->chat.response_format = std::string(format->SourceIn(body));
  }
}

void ReadOutput(FieldReader& reader, bool thinks_unasked, ChatCompletionRequest* request) {
  const bool asks = ReadReasoningFields(reader, &request->encoding);
  if (!asks && !thinks_unasked) request->encoding.thinking = ThinkingMode::kChat;
  request->reasoning_budget = ReadReasoningBudget(reader);
  const JsonValue* thinking = reader.Find("thinking");
  const JsonValue* display = thinking == nullptr ? nullptr : thinking->Find("display");
  if (display == nullptr || display->IsNull()) return;
  // Changes only the display, not the answer, so unknown words of newer clients do no harm.
  request->include_reasoning = thinking->FindText("display") != "omitted";
}

// Reads the tools, the messages, which may add or remove some, and the choice among them.
void ReadChat(FieldReader& reader, const RequestLimits& limits, const RequestDefaults& defaults,
              std::string_view body, ChatCompletionRequest* request) {
  MessagesTools tools = ReadMessagesTools(reader, limits, body);
  OfferedTools offered(std::move(tools.tools));
  request->chat.messages = ReadConversation(
      reader, body, {.stable_system = defaults.stable_system, .media = defaults.media}, &offered);
  tools.tools = offered.tools();
  request->tool_choice = ReadMessagesToolChoice(reader, tools, &request->parallel_tool_calls);
  if (request->tool_choice.kind == ToolChoice::Kind::kNone) return;
  request->chat.tools = std::move(tools.tools);
}

}  // namespace

Result<ChatCompletionRequest> ParseMessagesRequest(const ApiBody& body, const RequestLimits& limits,
                                                   const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  ChatCompletionRequest request = DefaultChat(defaults);
  FieldReader reader(*json);
  RefuseOtherEndpoint(reader, "messages");
  ReadMessagesGeneration(reader, limits, &request.generation);
  ReadOutput(reader, defaults.messages_think, &request);
  ReadMessagesFormat(reader, body.text, &request);
  ReadChat(reader, limits, defaults, body.text, &request);
  if (reader.error()) return Unexpected(*reader.error());
  return request;
}

}  // namespace fathom::api
