// The fields that chat completions and completions share: how to generate, and how much.
// docs/spec/serving.md section 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "chat/chat.h"
#include "engine/request.h"
#include "json/field_reader.h"

namespace fathom {

// Limits of one request.
struct RequestLimits {
  std::int64_t vocab_size = 0;   // token ids are below it
  std::int64_t max_context = 0;  // tokens of prompt and answer together
  std::int64_t max_choices = 8;
  std::size_t max_prompts = 1024;
  std::size_t max_stop_strings = 16;
  std::size_t max_stop_string_bytes = 512;
  std::size_t max_stop_tokens = 1024;
  std::size_t max_logit_biases = 4096;
  std::size_t max_tools = 1024;
};

// Values for fields that a request leaves out.
struct RequestDefaults {
  SamplingParameters sampling;
  EncodeOptions encoding;  // for chats
  // Messages: leave out of the system prompt what Claude Code changes from request to request
  // (stable_system.h).
  bool stable_system = true;
};

struct GenerationFields {
  std::string model;  // the client's name of the model; any name, or none
  SamplingParameters sampling;
  int n_choices = 1;
  int priority = 0;  // as in the engine: the larger runs first. Clients send the opposite sign.
  bool stream = false;
  bool include_usage = false;     // a last chunk of a stream with the usage
  bool continuous_usage = false;  // and in all others what it is so far
  bool may_be_empty = false;      // max_tokens may be 0; set by the reader of the other fields
};

// `fields` holds the defaults. logprobs are not read here: the two kinds of request have different
// fields. Fields that would change the answer and are not supported yet are errors (kUnsupported);
// purely informative and unknown fields are ignored.
void ReadGenerationFields(FieldReader& reader, const RequestLimits& limits,
                          GenerationFields* fields);

// Parts of it that other APIs have as well, some under a `key` of their own.
// temperature, top_p, top_k, min_p and the penalties.
void ReadSampling(FieldReader& reader, const RequestLimits& limits, SamplingParameters* sampling);
// A string or a list of strings.
void ReadStopStrings(FieldReader& reader, std::string_view key, const RequestLimits& limits,
                     SamplingParameters* sampling);
void ReadMaxTokens(FieldReader& reader, std::string_view key, std::int64_t least,
                   SamplingParameters* sampling);
// Only how many there are.
void CheckToolCount(FieldReader& reader, std::string_view key, const RequestLimits& limits);

// Whether the schema of a tool has to be kept: {"strict": true}, in the object that has its name.
bool IsStrict(const JsonValue& function);

// The body of a request. Errors: not JSON, not an object.
Result<JsonValue> ParseBody(std::string_view body);

}  // namespace fathom
