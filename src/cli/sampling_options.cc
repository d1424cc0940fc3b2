#include "cli/sampling_options.h"

#include "engine/sampling_fields.h"

namespace fathom::cli {

SamplingParameters MakeSamplingParameters(const SamplingOptions& options,
                                          const GenerationConfig& config,
                                          std::optional<std::int64_t> max_tokens) {
  SamplingParameters parameters = config.Sampling();
  for (const SamplingField& field : SamplingFields()) {
    const auto given = options.fields.find(field.name);
    if (given != options.fields.end()) field.Set(given->second, parameters);
  }
  parameters.logit_bias.insert(options.logit_bias.begin(), options.logit_bias.end());
  parameters.top_logprobs = options.n_logprobs;
  parameters.seed = options.seed;
  parameters.max_tokens = max_tokens;
  parameters.min_tokens = options.min_tokens;
  parameters.stop_strings = options.stop_strings;
  parameters.stop_tokens = options.stop_tokens;
  parameters.ignore_eos = options.ignore_eos;
  return parameters;
}

}  // namespace fathom::cli
