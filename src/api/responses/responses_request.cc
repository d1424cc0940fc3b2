#include "api/responses/responses_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "api/common/other_endpoint.h"
#include "api/common/reasoning_fields.h"
#include "api/responses/responses_items.h"
#include "api/responses/responses_tools.h"

namespace fathom::api {
namespace {

// These fields need a server that works without its client, or data that only OpenAI has.
constexpr std::string_view kUnsupported[] = {"background", "conversation", "prompt"};

void ReadResponsesGeneration(FieldReader& reader, const RequestLimits& limits,
                             GenerationFields* fields) {
  ReadGenerationFields(reader, limits, fields);
  if (fields->n_choices != 1) {
    reader.Fail("n", "1: a response is one answer", fmt::format("{}", fields->n_choices));
  }
  ReadMaxTokens(reader, "max_output_tokens", 1, &fields->sampling);
}

// The names in "include". All names after the first two refer to outputs of tools that this server
// does not run, or to inputs that it does not accept: there is nothing to include.
constexpr std::string_view kIncludes[] = {
    "reasoning.encrypted_content",    "message.output_text.logprobs",
    "code_interpreter_call.outputs",  "computer_call_output.output.image_url",
    "file_search_call.results",       "message.input_image.image_url",
    "web_search_call.action.sources", "web_search_call.results"};

// Reads include, the list of extra outputs.
void ReadInclude(FieldReader& reader, ResponsesRequest* request) {
  bool includes_logprobs = false;
  reader.ReadList("include", "a list", [&](const JsonValue& entry, const std::string& path) {
    if (!entry.IsString()) return reader.Fail(path, "a string", entry);
    const auto* known = std::find(std::begin(kIncludes), std::end(kIncludes), entry.text());
    if (known == std::end(kIncludes)) {
      reader.Fail(path, fmt::format("one of {}", fmt::join(kIncludes, ", ")), entry);
    }
    if (known == kIncludes) request->context.includes_encrypted_reasoning = true;
    if (known == kIncludes + 1) includes_logprobs = true;
  });
  std::int64_t top_logprobs = 0;
  reader.ReadInteger("top_logprobs", {.low = 0, .high = kMaxTopLogprobs}, &top_logprobs);
  SamplingParameters& sampling = request->chat.generation.sampling;
  sampling.top_logprobs.reset();
  if (includes_logprobs) sampling.top_logprobs = static_cast<int>(top_logprobs);
}

void ReadResponsesReasoning(FieldReader& reader, ResponsesRequest* request) {
  ReadReasoningFields(reader, &request->chat.encoding);
  reader.ReadObject("reasoning", [&](FieldReader& reasoning) {
    std::string summary = reasoning.Text("summary");
    if (summary.empty()) summary = reasoning.Text("generate_summary");  // its older name
    request->context.summarizes = !summary.empty() && summary != "none";
  });
  request->chat.reasoning_budget = ReadReasoningBudget(reader);
}

// Reads the choice among the tools, some of which the items may have added.
void ChooseResponsesTools(FieldReader& reader, ResponsesTools tools, ResponsesRequest* request) {
  request->chat.tool_choice = ReadResponsesToolChoice(reader, tools);
  reader.ReadBool("parallel_tool_calls", &request->chat.parallel_tool_calls);
  // A request that offers nothing but a search would be answered without a search.
  if (tools.tools.empty() && !tools.dropped.empty() &&
      request->chat.tool_choice.kind == ToolChoice::Kind::kAuto) {
    reader.Refuse("{}.type: this server does not run such a tool, and drops it only beside others",
                  tools.dropped);
  }
  if (request->chat.tool_choice.kind == ToolChoice::Kind::kNone) return;
  request->chat.chat.tools = std::move(tools.tools);
  request->chat.generation.relaxed = std::move(tools.relaxed);
  request->context.client_tools.merge(tools.client_tools);
}

// Reads the tools and the conversation.
void ReadResponsesChat(FieldReader& reader, std::string_view body, const RequestLimits& limits,
                       const RequestDefaults& defaults, ResponseStore* store,
                       ResponsesRequest* request) {
  ResponsesTools tools = ReadResponsesTools(reader, body, limits);
  OfferedTools offered(std::move(tools.tools));
  reader.ReadBool("store", &request->context.store);
  ReadResponsesInput(reader, body, store, {.media = defaults.media, .limits = limits}, &offered,
                     request);
  tools.tools = offered.tools();
  ChooseResponsesTools(reader, std::move(tools), request);
}

// Puts the instructions before all messages and the tools. A request without instructions and
// messages becomes an empty turn of the user, because a prompt needs a message; the first request
// of Codex is an example.
void AddInstructions(FieldReader& reader, std::vector<Message>* messages) {
  std::string instructions = reader.Text("instructions");
  if (instructions.empty()) {
    if (messages->empty()) messages->push_back({.role = Role::kUser});
  } else if (!messages->empty() && messages->front().role == Role::kSystem) {
    std::string& content = messages->front().content;
    content = content.empty() ? instructions : fmt::format("{}\n\n{}", instructions, content);
  } else {
    messages->insert(messages->begin(),
                     Message{.role = Role::kSystem, .content = std::move(instructions)});
  }
}

bool HasOnlyJsonNumbers(const JsonValue& value) {
  if (value.kind() == JsonValue::Kind::kFloat) {
    const std::optional<double> number = value.AsDouble();
    return number && std::isfinite(*number);
  }
  const std::span<const JsonValue> items = value.items();
  return std::all_of(items.begin(), items.end(), HasOnlyJsonNumbers);
}

// Returns a client's value to be sent back: null if it contains a number that JSON cannot
// represent.
JsonValue EchoedValue(const JsonValue* value) {
  return value != nullptr && HasOnlyJsonNumbers(*value) ? *value : JsonValue();
}

// The events of a response repeat these fields three times, and a stored response contains them.
// Other repeated fields are part of the prompt, whose length is bounded.
void CheckEchoedSizes(FieldReader& reader, std::string_view body) {
  constexpr std::size_t kMaxBytes = std::size_t{256} << 10;
  for (const std::string_view key :
       {"max_tool_calls", "metadata", "prompt_cache_key", "reasoning", "safety_identifier", "text",
        "tool_choice", "truncation", "user"}) {
    const JsonValue* value = reader.Find(key);
    const std::size_t n_bytes = value == nullptr ? 0 : value->SourceIn(body).size();
    if (n_bytes <= kMaxBytes) continue;
    reader.Fail(key, fmt::format("at most {} bytes", kMaxBytes), fmt::format("{}", n_bytes));
  }
}

// Returns the fields that the response repeats, with OpenAI's defaults, because clients look for
// the keys.
JsonValue Echo(const FieldReader& reader, const ResponsesRequest& request) {
  const auto echo = [&reader](std::string_view key) { return EchoedValue(reader.Find(key)); };
  const auto echo_or = [&echo](std::string_view key, JsonValue otherwise) {
    JsonValue json = echo(key);
    return json.IsNull() ? std::move(otherwise) : json;
  };
  JsonValue text = {{"format", {{"type", "text"}}}};
  text.Update(echo_or("text", JsonValue::Object()));
  JsonValue reasoning = {{"effort", nullptr}, {"summary", nullptr}};
  reasoning.Update(echo_or("reasoning", JsonValue::Object()));
  JsonValue json = {{"instructions", echo("instructions")},
                    {"max_output_tokens", echo("max_output_tokens")},
                    {"max_tool_calls", echo("max_tool_calls")},
                    {"metadata", echo_or("metadata", JsonValue::Object())},
                    {"parallel_tool_calls", request.chat.parallel_tool_calls},
                    {"previous_response_id", echo("previous_response_id")},
                    {"prompt_cache_key", echo("prompt_cache_key")},
                    {"reasoning", std::move(reasoning)},
                    {"safety_identifier", echo("safety_identifier")},
                    {"service_tier", "default"},
                    {"store", request.context.store},
                    {"text", std::move(text)},
                    {"tool_choice", echo_or("tool_choice", "auto")},
                    {"tools", echo_or("tools", JsonValue::Array())},
                    {"truncation", echo_or("truncation", "disabled")},
                    {"user", echo("user")}};
  return json;
}

}  // namespace

std::span<const std::string_view> KnownIncludes() { return kIncludes; }

Result<ResponsesRequest> ParseResponsesRequest(const ApiBody& body, const RequestLimits& limits,
                                               const RequestDefaults& defaults,
                                               ResponseStore* store) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  ResponsesRequest request = {.chat = DefaultChat(defaults), .context = {}};
  FieldReader reader(*json);
  if (reader.Find("previous_response_id") == nullptr) RefuseOtherEndpoint(reader, "input");
  CheckEchoedSizes(reader, body.text);
  ReadResponsesGeneration(reader, limits, &request.chat.generation);
  request.chat.generation.openai_rules = defaults.openai_strict_rules;
  RefuseFields(reader, kUnsupported, "not supported");
  ReadInclude(reader, &request);
  ReadResponsesReasoning(reader, &request);
  if (const JsonValue* text = reader.FindObject("text")) {
    const JsonValue* format = FieldReader(*text).Find("format");
    ReadFormat(reader, format, "text.format", FormStrictness::kAsTheFieldSays,
               &request.chat.generation.form);
    if (request.chat.generation.form.field == "text.format") {
      request.chat.chat.response_format = std::string(format->SourceIn(body.text));
    }
  }
  ReadResponsesChat(reader, body.text, limits, defaults, store, &request);
  if (reader.error()) return Unexpected(*reader.error());
  AddInstructions(reader, &request.chat.chat.messages);
  if (reader.error()) return Unexpected(*reader.error());
  request.context.echo = Echo(reader, request);
  return request;
}

}  // namespace fathom::api
