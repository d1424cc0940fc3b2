#include "api/common/sampling_aliases.h"

#include <fmt/format.h>

#include "api/common/generation_fields.h"
#include "engine/sampling_fields.h"

namespace fathom::api {
namespace {

// Another server's numeric sampling parameter, and the value with which it changes nothing.
struct OtherNumber {
  std::string_view name;
  double neutral;
};

// Numbers that only tune one of these parameters, such as mirostat_tau, change nothing without it.
constexpr OtherNumber kOtherNumbers[] = {
    {"adaptive_target", -1},
    {"cfg_scale", 1},
    {"dry_multiplier", 0},
    {"dynatemp_range", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"guidance_scale", 1},
    {"length_penalty", 1},
    {"mirostat", 0},
    {"mirostat_mode", 0},
    {"no_repeat_ngram_size", 0},
    {"penalty_alpha", 0},
    {"smoothing_factor", 0},
    {"tfs", 1},
    {"tfs_z", 1},
    {"top_a", 0},
    {"top_n_sigma", -1},
    {"typical", 1},
    {"typical_p", 1},
    {"xtc_probability", 0},
};

constexpr std::string_view kOtherValues[] = {
    "chat_template",    "custom_logit_processor",
    "documents",        "ebnf",
    "negative_prompt",  "regex",
    "sampler_order",    "samplers",
    "sampler_priority", "stop_regex",
};

// Other servers look for repeated tokens only in the last ones; this server looks in all.
constexpr std::string_view kPenaltyRanges[] = {"repeat_last_n", "penalty_last_n",
                                               "repetition_penalty_range"};

}  // namespace

void ReadSamplingAliases(FieldReader& reader, SamplingParameters* sampling) {
  constexpr std::string_view kName = "repetition_penalty";
  if (reader.Find(kName) != nullptr) return;
  for (const SamplingField& field : SamplingFields()) {
    if (field.name != kName) continue;
    reader.ReadNumber("repeat_penalty", {field.low, field.high}, &(sampling->*field.number));
  }
}

void RefuseOtherSampling(FieldReader& reader, const SamplingParameters& sampling) {
  for (const OtherNumber& other : kOtherNumbers) {
    const JsonValue* value = reader.Find(other.name);
    if (value != nullptr && value->AsDouble() != other.neutral)
      reader.Refuse("{}: not supported", other.name);
  }
  RefuseFields(reader, kOtherValues, "not supported");
  for (const std::string_view name : kPenaltyRanges) {
    const JsonValue* range = reader.Find(name);
    if (range == nullptr || range->AsInteger() == -1 || sampling.repetition_penalty == 1) continue;
    reader.Refuse(
        "{}: not supported with a repetition_penalty, but for -1: the penalty holds for all tokens",
        name);
  }
}

}  // namespace fathom::api
