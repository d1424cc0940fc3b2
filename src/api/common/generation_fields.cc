#include "api/common/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/common/sampling_aliases.h"
#include "base/character_count.h"
#include "base/parse_text.h"
#include "engine/sampling_fields.h"

namespace fathom::api {
namespace {

// These fields would change the answer.
constexpr std::string_view kNotYet[] = {
    "allowed_token_ids", "audio",
    "bad_words",         "include_stop_str_in_output",
    "logits_processors", "truncate_prompt_tokens",
    "use_beam_search",
};

void ReadSeed(FieldReader& reader, SamplingParameters* sampling) {
  if (reader.Find("seed") == nullptr) return;
  std::int64_t seed = -1;
  reader.ReadInteger("seed", {}, &seed);
  sampling->seed.reset();  // -1 asks for a random seed, as some clients write it
  if (seed != -1) sampling->seed = static_cast<std::uint64_t>(seed);
}

void ReadLogitBias(FieldReader& reader, const RequestLimits& limits, SamplingParameters* sampling) {
  const JsonValue* biases = reader.Find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->IsObject() || biases->items().size() > limits.max_logit_biases) {
    reader.Fail("logit_bias",
                fmt::format("an object of at most {} token ids", limits.max_logit_biases),
                biases->IsObject() ? fmt::format("{} of them", biases->items().size())
                                   : DescribeFound(*biases));
    return;
  }
  sampling->logit_bias.clear();
  for (std::size_t i = 0; i < biases->items().size() && !reader.error(); ++i) {
    const std::string_view key = biases->key(i);
    const Token token = ParseNumber<Token>(key).value_or(-1);
    // "07" would be another bias of the same token.
    if (token < 0 || token >= limits.vocab_size || key != std::to_string(token)) {
      reader.Fail("logit_bias", fmt::format("token ids from 0 to {}", limits.vocab_size - 1),
                  JsonValue(key));
      return;
    }
    const std::optional<double> bias =
        reader.ToNumber(biases->items()[i], fmt::format("logit_bias.{}", token), {-100, 100});
    sampling->logit_bias[token] = bias.value_or(0);
  }
}

void ReadStopTokens(FieldReader& reader, const RequestLimits& limits,
                    SamplingParameters* sampling) {
  const JsonValue* stop = reader.Find("stop_token_ids");
  if (stop == nullptr) return;
  if (!stop->IsArray() || stop->items().size() > limits.max_stop_tokens) {
    reader.Fail(
        "stop_token_ids", fmt::format("a list of at most {} token ids", limits.max_stop_tokens),
        stop->IsArray() ? fmt::format("{} of them", stop->items().size()) : DescribeFound(*stop));
    return;
  }
  sampling->stop_tokens.clear();
  for (std::size_t i = 0; i < stop->items().size() && !reader.error(); ++i) {
    const std::optional<std::int64_t> token =
        reader.ToInteger(stop->items()[i], fmt::format("stop_token_ids[{}]", i),
                         {.low = 0, .high = limits.vocab_size - 1});
    sampling->stop_tokens.push_back(static_cast<Token>(token.value_or(0)));
  }
}

void ReadLengths(FieldReader& reader, bool may_be_empty, SamplingParameters* sampling) {
  // The names are equivalent; the last one that is present decides.
  for (const std::string_view key : kLengthNames) {
    ReadMaxTokens(reader, key, may_be_empty ? 0 : 1, sampling);
  }
  reader.ReadInteger("min_tokens", {.low = 0}, &sampling->min_tokens);
  if (sampling->max_tokens && sampling->min_tokens > *sampling->max_tokens) {
    reader.Fail("min_tokens", fmt::format("at most max_tokens, which is {}", *sampling->max_tokens),
                fmt::format("{}", sampling->min_tokens));
  }
  reader.ReadBool("ignore_eos", &sampling->ignore_eos);
}

void ReadPromptLogprobs(FieldReader& reader, GenerationFields* fields) {
  if (reader.Find("prompt_logprobs") == nullptr) return;
  std::int64_t count = 0;
  reader.ReadInteger("prompt_logprobs", {.low = 0, .high = kMaxTopLogprobs}, &count);
  fields->prompt_logprobs = static_cast<int>(count);
  fields->may_be_empty = true;  // a prompt may be only scored, as in vLLM
  if (fields->stream) reader.Fail("prompt_logprobs", "no stream with them", "stream: true");
}

void ReadStream(FieldReader& reader, GenerationFields* fields) {
  reader.ReadBool("stream", &fields->stream);
  reader.ReadObject("stream_options", [&](FieldReader& options) {
    options.ReadBool("include_usage", &fields->include_usage);
    options.ReadBool("continuous_usage_stats", &fields->continuous_usage);
  });
}

}  // namespace

void ReadSampling(FieldReader& reader, const RequestLimits& limits, SamplingParameters* sampling) {
  for (const SamplingField& field : SamplingFields()) {
    if (field.n_tokens != nullptr) {
      // -1 means off, as for many clients; a value above the vocabulary means all tokens.
      std::int64_t& value = sampling->*field.n_tokens;
      reader.ReadInteger(field.name, {.low = -1}, &value);
      value = std::clamp(value, std::int64_t{0}, std::max<std::int64_t>(limits.vocab_size, 0));
      continue;
    }
    reader.ReadNumber(field.name, {field.low, field.high}, &(sampling->*field.number));
  }
  ReadSamplingAliases(reader, sampling);
  RefuseOtherSampling(reader, *sampling);
  ReadSeed(reader, sampling);
}

void ReadCacheSalt(FieldReader& reader, std::string* cache_salt) {
  if (reader.Find("cache_salt") != nullptr) *cache_salt = reader.RequireText("cache_salt");
}

void ReadStopStrings(FieldReader& reader, std::string_view key, const RequestLimits& limits,
                     SamplingParameters* sampling) {
  const JsonValue* stop = reader.Find(key);
  if (stop == nullptr) return;
  if (!stop->IsString() && !stop->IsArray()) {
    reader.Fail(key, "a string or a list of strings", *stop);
    return;
  }
  const std::span<const JsonValue> list = stop->items();
  if (list.size() > limits.max_stop_strings) {
    reader.Fail(key, fmt::format("at most {} strings", limits.max_stop_strings),
                fmt::format("{}", list.size()));
    return;
  }
  sampling->stop_strings.clear();
  for (std::size_t i = 0; i < (stop->IsString() ? 1 : list.size()) && !reader.error(); ++i) {
    const JsonValue& entry = stop->IsString() ? *stop : list[i];
    if (!entry.IsString() || entry.text().empty() ||
        CountCharacters(entry.text()) > limits.max_stop_string_characters) {
      reader.Fail(stop->IsString() ? std::string(key) : fmt::format("{}[{}]", key, i),
                  fmt::format("a string of 1 to {} characters", limits.max_stop_string_characters),
                  DescribeFound(entry));
    }
    sampling->stop_strings.emplace_back(entry.text());
  }
}

void ReadMaxTokens(FieldReader& reader, std::string_view key, std::int64_t least,
                   SamplingParameters* sampling) {
  const JsonValue* found = reader.Find(key);
  if (found == nullptr) return;
  sampling->max_tokens.reset();
  if (found->AsInteger() == -1) return;  // no limit, as in llama.cpp
  std::int64_t max_tokens = least;
  reader.ReadInteger(key, {.low = least}, &max_tokens);
  sampling->max_tokens = max_tokens;
}

void ReadModel(FieldReader& reader, const RequestLimits& limits, std::string* model) {
  reader.ReadString("model", model);
  const std::size_t n_characters = CountCharacters(*model);
  if (n_characters > limits.max_model_characters) {
    reader.Fail("model",
                fmt::format("a string of at most {} characters", limits.max_model_characters),
                fmt::format("{} of them", n_characters));
  }
}

void AddRelaxed(std::string_view field, std::string* relaxed) {
  constexpr std::size_t kMaxBytes = 512;
  constexpr std::string_view kMore = ", ...";
  if (relaxed->ends_with(kMore)) return;
  if (relaxed->size() > kMaxBytes) {
    *relaxed += kMore;
  } else {
    *relaxed += relaxed->empty() ? "" : ", ";
    *relaxed += field;
  }
}

void RefuseFields(FieldReader& reader, std::span<const std::string_view> keys,
                  std::string_view reason) {
  for (const std::string_view key : keys) {
    const JsonValue* value = reader.Find(key);
    if (value != nullptr && value->Truthy()) reader.Refuse("{}: {}", key, reason);
  }
}

void CheckToolCount(FieldReader& reader, std::string_view key, const RequestLimits& limits) {
  const JsonValue* tools = reader.Find(key);
  if (tools != nullptr && tools->IsArray() && tools->items().size() > limits.max_tools) {
    reader.Fail(key, fmt::format("at most {}", limits.max_tools),
                fmt::format("{}", tools->items().size()));
  }
}

void ReadGenerationFields(FieldReader& reader, const RequestLimits& limits,
                          GenerationFields* fields) {
  ReadModel(reader, limits, &fields->model);
  ReadSampling(reader, limits, &fields->sampling);
  ReadLogitBias(reader, limits, &fields->sampling);
  ReadStopStrings(reader, "stop", limits, &fields->sampling);
  ReadStopTokens(reader, limits, &fields->sampling);
  ReadStream(reader, fields);
  ReadPromptLogprobs(reader, fields);
  ReadLengths(reader, fields->may_be_empty, &fields->sampling);
  std::int64_t n_choices = fields->n_choices;
  reader.ReadInteger("n", {.low = 1, .high = limits.max_choices}, &n_choices);
  fields->n_choices = static_cast<int>(n_choices);
  std::int64_t priority = -fields->priority;
  reader.ReadInteger("priority", {.low = -kMaxPriority, .high = kMaxPriority}, &priority);
  fields->priority = static_cast<int>(-priority);
  ReadCacheSalt(reader, &fields->cache_salt);
  reader.ReadBool("return_token_ids", &fields->return_token_ids);
  reader.ReadBool("return_tokens_as_token_ids", &fields->names_tokens_by_id);
  ReadFormFields(reader, &fields->form);
  ReadFormat(reader, reader.Find("response_format"), "response_format",
             FormStrictness::kAsTheFieldSays, &fields->form);
  RefuseFields(reader, kNotYet, "not supported yet");
  // An empty object demands a search, too.
  if (reader.Find("web_search_options") != nullptr) {
    reader.Refuse("web_search_options: not supported yet");
  }
}

bool IsStrict(const JsonValue& function) {
  const JsonValue* strict = function.Find("strict");
  return strict != nullptr && strict->Truthy();
}

Result<JsonValue> ParseBody(const ApiBody& body) {
  Result<JsonValue> json = ParseJson(body.text, {.stop = body.is_abandoned});
  if (!json) return Unexpected(json.error());
  if (!json->IsObject()) {
    return MakeError(ErrorCode::kInvalidArgument, "the body of a request is an object, found {}",
                     DescribeFound(*json));
  }
  return json;
}

}  // namespace fathom::api
