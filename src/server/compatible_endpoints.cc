#include "server/compatible_endpoints.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "api/common/generation_fields.h"
#include "api/ollama/ollama_api.h"
#include "api/ollama/ollama_request.h"
#include "api/openai/openai_api.h"
#include "engine/metrics.h"
#include "json/field_reader.h"

namespace fathom::server {
namespace {

// Returns the default sampling for requests, by the names of llama.cpp.
JsonValue SamplingJson(const SamplingParameters& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repetition_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty},
          {"n_predict", sampling.max_tokens.value_or(-1)}};
}

// Returns the average number of tokens that a sequence gets in a step: one, and the accepted
// drafts.
double TokensOfStep(const MetricsSnapshot& now) {
  std::int64_t n_drafts = 0;
  std::int64_t n_accepted = 0;
  for (const auto* depths : {&now.drafted, &now.looked_up}) {
    if (!depths->empty()) n_drafts += depths->front();  // every draft has a first token
  }
  for (const auto* depths : {&now.accepted, &now.accepted_lookups}) {
    n_accepted = std::accumulate(depths->begin(), depths->end(), n_accepted);
  }
  return 1.0 +
         static_cast<double>(n_accepted) / static_cast<double>(std::max<std::int64_t>(n_drafts, 1));
}

}  // namespace

ApiResult<HttpResponse> ApplyTemplateResponse(const ApiModel& model, const ApiBody& body) {
  const ApiResult<ApiCall> call = kChatCompletions.prepare(body, model);
  if (!call) return tl::unexpected<ApiError>(call.error());
  Result<std::string> prompt = model.tokenizer->Decode(call->requests.front().prompt);
  if (!prompt) return UnexpectedApiError(prompt.error());
  return JsonResponse({{"prompt", *std::move(prompt)}});
}

HttpResponse PropsResponse(const ServedModel& model, std::string_view version) {
  const ApiModel& api = *model.api;
  return JsonResponse(
      {{"default_generation_settings",
        {{"n_ctx", api.limits.max_context}, {"params", SamplingJson(api.defaults.sampling)}}},
       {"total_slots", model.max_sequences},
       {"model_alias", model.names.front()},
       {"model_path", model.root},
       {"modalities", {{"vision", false}, {"audio", false}}},
       {"chat_template", ""},  // the format is not a template: /apply-template renders a chat
       {"bos_token", api.tokenizer->TokenToText(api.bos)},
       {"eos_token", api.tokenizer->TokenToText(api.eos)},
       {"build_info", "fathom " + std::string(version)}});
}

HttpResponse ModelInfoResponse(const ServedModel& model) {
  return JsonResponse({{"model_path", model.root},
                       {"tokenizer_path", model.root},
                       {"served_model_name", model.names.front()},
                       {"is_generation", true},
                       {"has_image_understanding", false},
                       {"has_audio_understanding", false},
                       {"max_model_len", model.api->limits.max_context}});
}

ApiResult<HttpResponse> ShowResponse(const ServedModel& model, const ApiBody& body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return UnexpectedApiError(json.error());
  FieldReader reader(*json);
  std::string name = reader.Text("model");
  if (name.empty()) name = reader.Text("name");  // older clients
  if (!reader.error() && name.empty()) reader.Fail("model", "the name of a model", "nothing");
  if (reader.error()) return UnexpectedApiError(*reader.error());
  RemoveLatest(&name);
  if (std::ranges::find(model.names, name) == model.names.end()) {
    return tl::unexpected<ApiError>(UnknownModel(name));
  }
  return JsonResponse({{"details", OllamaModelDetails()},
                       {"model_info",
                        {{"general.architecture", "deepseek4"},
                         {"general.basename", model.root},
                         {"deepseek4.context_length", model.api->limits.max_context}}},
                       {"capabilities", JsonValue::Array({"completion", "tools", "thinking"})}});
}

HttpResponse ServerInfoResponse(const ServedModel& model, std::string_view version) {
  return JsonResponse(
      {{"version", std::string(version)},
       {"model_path", model.root},
       {"served_model_name", model.names.front()},
       {"context_length", model.api->limits.max_context},
       {"max_running_requests", model.max_sequences},
       {"internal_states", JsonValue::Array({{{"avg_spec_accept_length",
                                               TokensOfStep(model.metrics->Snapshot())}}})}});
}

}  // namespace fathom::server
