#include "engine/sampling_fields.h"

namespace fathom::engine {
namespace {

constexpr SamplingField kFields[] = {
    {.name = "temperature",
     .number = &SamplingParameters::temperature,
     .high = 2,
     .value = "T",
     .help = "0 to 2; 0 is greedy (default: generation_config.json of the model, else 1)"},
    {.name = "top_p",
     .number = &SamplingParameters::top_p,
     .high = 1,
     .value = "P",
     .help = "Choose among the fewest tokens of this total probability; 0 is greedy (default: as "
             "above)"},
    {.name = "top_k",
     .n_tokens = &SamplingParameters::top_k,
     .value = "K",
     .help = "Choose among the K best tokens; 0 is off"},
    {.name = "min_p",
     .number = &SamplingParameters::min_p,
     .high = 1,
     .value = "P",
     .help = "Drop tokens less probable than this share of the best one's"},
    {.name = "repetition_penalty",
     .number = &SamplingParameters::repetition_penalty,
     .low = 0.01,
     .high = 100,
     .value = "R",
     .help = "Divides the logits of tokens that have occurred; 1 is off"},
    {.name = "presence_penalty",
     .number = &SamplingParameters::presence_penalty,
     .low = -2,
     .high = 2,
     .value = "P",
     .help = "Subtracted once from generated tokens, -2 to 2"},
    {.name = "frequency_penalty",
     .number = &SamplingParameters::frequency_penalty,
     .low = -2,
     .high = 2,
     .value = "F",
     .help = "Subtracted for every time a token was generated, -2 to 2"},
};

}  // namespace

std::span<const SamplingField> SamplingFields() { return kFields; }

Status SamplingField::Check(const SamplingParameters& parameters, std::int64_t vocab_size) const {
  if (n_tokens != nullptr) {
    const std::int64_t found = parameters.*n_tokens;
    if (found >= 0 && found <= vocab_size) return {};
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected 0 to {}, found {}", name,
                     vocab_size, found);
  }
  const double found = parameters.*number;
  if (found >= low && found <= high) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected {} to {}, found {}", name, low, high,
                   found);
}

}  // namespace fathom::engine
