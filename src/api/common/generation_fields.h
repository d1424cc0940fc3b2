// The fields that chat completions and completions share: sampling and lengths.
// docs/spec/serving.md section 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/common/answer_constraint.h"
#include "api/common/api_body.h"
#include "api/common/content_form.h"
#include "chat/chat.h"
#include "chat/media_parts.h"
#include "engine/request.h"
#include "json/field_reader.h"

namespace fathom::api {

// Limits of one request.
struct RequestLimits {
  std::int64_t vocab_size = 0;   // token ids are below it
  std::int64_t max_context = 0;  // tokens of prompt and answer together
  std::int64_t max_choices = 8;
  std::size_t max_prompts = 1024;
  std::size_t max_stop_strings = 16;
  std::size_t max_stop_string_characters = 512;
  std::size_t max_stop_tokens = 1024;
  std::size_t max_logit_biases = 4096;
  std::size_t max_tools = 1024;
  std::int64_t max_prompt_logprobs = 1 << 20;  // number of values for all prompts of a request
  std::size_t max_detokenized = 1 << 20;       // two bytes of a list may become many bytes of text
  std::size_t max_model_characters = 1024;  // length of the model name, which every event repeats
};

// Values of absent fields.
struct RequestDefaults {
  SamplingParameters sampling;
  // For chats. The effort is the default of the hosted API.
  EncodeOptions encoding{.effort = "high"};
  ToolGrammar tool_grammar = ToolGrammar::kAuto;  // for chats
  ContentForm form{};                             // form of answers to requests that demand none
  // For OpenAI's APIs: refuse strict schemas that OpenAI refuses (openai_rules.h).
  bool openai_strict_rules = false;
  // For chats: the lengths and the sampling of the hosted API (chat_call.cc).
  bool like_hosted = false;
  // For messages: think like other chats. False: as with Anthropic, only clients that ask for
  // reasoning get it.
  bool messages_think = true;
  // For messages: drop the parts of the system prompt that Claude Code changes from request to
  // request (StableSystemText).
  bool stable_system = true;
  MediaPolicy media = MediaPolicy::kEarlier;  // for chats: images and other parts that are not text
};

struct GenerationFields {
  std::string model;  // any name, or none
  SamplingParameters sampling;
  int n_choices = 1;
  int priority = 0;        // the engine's: larger runs first. Clients use the opposite sign.
  std::string cache_salt;  // Request::cache_salt
  bool stream = false;
  bool include_usage = false;     // send the usage in a last chunk of a stream
  bool continuous_usage = false;  // send the usage so far in every chunk
  bool may_be_empty = false;      // allow max_tokens 0; set by callers of ReadGenerationFields
  std::optional<int> prompt_logprobs{};  // Request::prompt_logprobs
  bool return_token_ids = false;         // report the tokens of prompts and answers
  bool names_tokens_by_id = false;       // write "token_id:7" for a token, not its text
  ContentForm form{};
  bool openai_rules = false;  // RequestDefaults::openai_strict_rules, for OpenAI's APIs
  // Parts of the request that are not enforced; see ApiCall::relaxed.
  std::string relaxed{};
};

// `fields` contains the defaults. logprobs are read elsewhere, because the two kinds of requests
// spell them differently. Unsupported fields that would change the answer are errors
// (kUnsupported); informational and unknown fields are ignored.
void ReadGenerationFields(FieldReader& reader, const RequestLimits& limits,
                          GenerationFields* fields);

// The following functions also serve other APIs, some with a `key` of their own. ReadSampling reads
// temperature, top_p, top_k, min_p, the penalties and the seed, and refuses other servers' sampling
// fields.
void ReadSampling(FieldReader& reader, const RequestLimits& limits, SamplingParameters* sampling);
// Reads cache_salt, as in vLLM: a text that is not empty.
void ReadCacheSalt(FieldReader& reader, std::string* cache_salt);
// Reads a string or a list of strings.
void ReadStopStrings(FieldReader& reader, std::string_view key, const RequestLimits& limits,
                     SamplingParameters* sampling);
// Reads any name that is not too long.
void ReadModel(FieldReader& reader, const RequestLimits& limits, std::string* model);
// Reads a number; -1 means no limit.
void ReadMaxTokens(FieldReader& reader, std::string_view key, std::int64_t least,
                   SamplingParameters* sampling);
// Adds a path to GenerationFields::relaxed; a long list ends with "...".
void AddRelaxed(std::string_view field, std::string* relaxed);
// Refuses each of the fields whose value is true in Python: null, false, 0, "", [] and {} demand
// nothing. `reason` follows the name of the field: "not supported".
void RefuseFields(FieldReader& reader, std::span<const std::string_view> keys,
                  std::string_view reason);
// Checks only the number of tools.
void CheckToolCount(FieldReader& reader, std::string_view key, const RequestLimits& limits);

// Returns whether the tool has {"strict": true} in the object with its name.
bool IsStrict(const JsonValue& function);

// Parses the body of a request. Errors: not JSON, not an object, too large (kTooLarge), abandoned
// (kUnavailable).
Result<JsonValue> ParseBody(const ApiBody& body);

}  // namespace fathom::api
