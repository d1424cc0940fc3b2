#include "api/response_json.h"

#include <nlohmann/json.hpp>

#include "api/logprobs_json.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens}};
}

Json MessageJson(const Answer& answer, bool include_reasoning) {
  Json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (answer.content.empty() && !answer.tool_calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning_content.empty() && include_reasoning) {
    // Clients read the one or the other.
    message["reasoning_content"] = answer.reasoning_content;
    message["reasoning"] = answer.reasoning_content;
  }
  for (const ToolCall& call : answer.tool_calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

// What ended the choice: a stop string, a stop token of the request, or neither.
Json StopReason(const CollectedAnswer& answer) {
  if (answer.stop_string) return *answer.stop_string;
  if (answer.stop_token) return *answer.stop_token;
  return nullptr;
}

Json Response(const char* object, const ResponseHead& head, Json choices, const Usage& usage) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint},
          {"choices", std::move(choices)},
          {"usage", UsageJson(usage)}};
}

}  // namespace

std::string ChatCompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                               const AnswerOptions& options, const Usage& usage,
                               const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const AnswerCollector& choice : choices) {
    const CollectedAnswer& collected = choice.collected();
    list.push_back({{"index", list.size()},
                    {"message", MessageJson(collected.answer, options.include_reasoning)},
                    {"logprobs", ChatLogprobs(collected, options.include_reasoning, tokenizer)},
                    {"finish_reason", ChatFinishReasonName(collected.answer.finish_reason)},
                    {"stop_reason", StopReason(collected)}});
  }
  return Dump(Response("chat.completion", head, std::move(list), usage));
}

std::string CompletionJson(const ResponseHead& head, std::span<const AnswerCollector> choices,
                           const Usage& usage, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const AnswerCollector& choice : choices) {
    const CollectedAnswer& collected = choice.collected();
    list.push_back({{"index", list.size()},
                    {"text", collected.answer.content},
                    {"logprobs", CompletionLogprobs(collected, tokenizer)},
                    {"finish_reason", ChatFinishReasonName(collected.answer.finish_reason)},
                    {"stop_reason", StopReason(collected)}});
  }
  return Dump(Response("text_completion", head, std::move(list), usage));
}

}  // namespace fathom
