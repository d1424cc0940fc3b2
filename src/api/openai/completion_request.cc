#include "api/openai/openai_requests.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/common/other_endpoint.h"
#include "api/common/reasoning_fields.h"
#include "json/json_value.h"

namespace fathom::api {
namespace {

constexpr std::string_view kPromptKinds =
    "a string, a list of strings, a list of token ids or a list of such lists";

std::vector<Token> ReadTokens(FieldReader& reader, const JsonValue& list, const std::string& path,
                              const RequestLimits& limits) {
  std::vector<Token> tokens;
  tokens.reserve(list.items().size());
  reader.ReadItems(list, path, kPromptKinds, [&](const JsonValue& item, const std::string& place) {
    const std::optional<std::int64_t> token =
        reader.ToInteger(item, place, {0, limits.vocab_size - 1});
    tokens.push_back(static_cast<Token>(token.value_or(0)));
  });
  if (list.items().empty()) reader.Fail(path, "at least one token", "none");
  return tokens;
}

std::vector<CompletionPrompt> ReadPrompts(FieldReader& reader, const RequestLimits& limits) {
  std::vector<CompletionPrompt> prompts;
  const JsonValue* prompt = reader.Find("prompt");
  if (prompt == nullptr) {
    reader.Fail("prompt", kPromptKinds, "nothing");
    return prompts;
  }
  if (prompt->IsString()) {
    prompts.emplace_back(std::string(prompt->text()));
    return prompts;
  }
  if (!prompt->IsArray() || prompt->items().empty()) {
    reader.Fail("prompt", kPromptKinds,
                prompt->IsArray() ? "an empty list" : DescribeFound(*prompt));
    return prompts;
  }
  if (!prompt->items().front().IsString() && !prompt->items().front().IsArray()) {
    prompts.emplace_back(ReadTokens(reader, *prompt, "prompt", limits));
    return prompts;
  }
  if (prompt->items().size() > limits.max_prompts) {
    reader.Fail("prompt", fmt::format("at most {} prompts", limits.max_prompts),
                fmt::format("{}", prompt->items().size()));
  }
  reader.ReadList("prompt", kPromptKinds, [&](const JsonValue& item, const std::string& path) {
    if (item.IsString()) {
      prompts.emplace_back(std::string(item.text()));
    } else if (item.IsArray()) {
      prompts.emplace_back(ReadTokens(reader, item, path, limits));
    } else {
      reader.Fail(path, "a string or a list of token ids", item);
    }
  });
  return prompts;
}

void ReadLogprobCount(FieldReader& reader, SamplingParameters* sampling) {
  if (reader.Find("logprobs") == nullptr) return;
  std::int64_t n_logprobs = 0;
  reader.ReadInteger("logprobs", {.low = 0, .high = kMaxTopLogprobs}, &n_logprobs);
  sampling->top_logprobs = static_cast<int>(n_logprobs);
}

// Reads the number of answers to generate, of which the n best are returned.
void ReadBestOf(FieldReader& reader, const RequestLimits& limits, CompletionRequest* request) {
  GenerationFields& fields = request->generation;
  request->n_told = fields.n_choices;
  std::int64_t best_of = fields.n_choices;
  reader.ReadInteger("best_of", {.low = fields.n_choices, .high = limits.max_choices}, &best_of);
  if (fields.stream && best_of > fields.n_choices) {
    reader.Fail("best_of", "n where the answers are streamed", fmt::format("{}", best_of));
  }
  fields.n_choices = static_cast<int>(best_of);
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(const ApiBody& body, const RequestLimits& limits,
                                                 const RequestDefaults& defaults) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Unexpected(json.error());
  CompletionRequest request = {.generation = {.sampling = defaults.sampling}};
  FieldReader reader(*json);
  RefuseOtherEndpoint(reader, "prompt");
  request.prompts = ReadPrompts(reader, limits);
  reader.ReadBool("echo", &request.echo);
  request.generation.may_be_empty = request.echo;  // a prompt may be only scored, as in vLLM
  ReadGenerationFields(reader, limits, &request.generation);
  request.generation.openai_rules = defaults.openai_strict_rules;
  ReadLogprobCount(reader, &request.generation.sampling);
  ReadBestOf(reader, limits, &request);
  reader.ReadBool("add_special_tokens", &request.add_special_tokens);
  std::string suffix = reader.Text("suffix");
  if (!suffix.empty()) request.suffix = std::move(suffix);
  if (ReadReasoningBudget(reader)) {
    reader.Refuse("thinking_token_budget: not supported where the reasoning is not told apart");
  }
  if (request.echo && request.generation.sampling.top_logprobs && request.suffix) {
    reader.Refuse("echo: not supported with logprobs and suffix, whose tokens are no text");
  }
  if (reader.error()) return Unexpected(*reader.error());
  return request;
}

}  // namespace fathom::api
