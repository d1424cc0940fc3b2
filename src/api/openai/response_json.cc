#include "api/openai/response_json.h"

#include <utility>

#include "api/common/sse.h"
#include "json/json_value.h"

namespace fathom {
namespace {}  // namespace

JsonValue ResponseJson(std::string_view object, const ResponseHead& head, JsonValue choices) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint},
          {"choices", std::move(choices)}};
}

void AddChunkUsage(const ApiAnswer& answer, JsonValue* chunk) {
  if (!answer.call().include_usage) return;
  (*chunk)["usage"] =
      answer.call().continuous_usage ? UsageJson(answer.usage()) : JsonValue(nullptr);
}

JsonValue UsageJson(const Usage& usage) {
  JsonValue completion = {{"reasoning_tokens", usage.reasoning_tokens}};
  if (usage.drafted_tokens > 0) {
    completion["accepted_prediction_tokens"] = usage.accepted_tokens;
    completion["rejected_prediction_tokens"] = usage.drafted_tokens - usage.accepted_tokens;
  }
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", std::move(completion)},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens}};
}

JsonValue StopReasonJson(const CollectedAnswer& answer) {
  if (answer.stop_string) return *answer.stop_string;
  if (answer.stop_token) return *answer.stop_token;
  return nullptr;
}

void AppendStreamEnd(std::string_view object, const ApiAnswer& answer, std::string* out) {
  if (answer.call().include_usage) {
    JsonValue chunk = ResponseJson(object, answer.head(), JsonValue::Array());
    chunk["usage"] = UsageJson(answer.usage());
    AppendSse(chunk, out);
  }
  out->append(kSseDone);
}

}  // namespace fathom
