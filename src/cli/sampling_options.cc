#include "cli/sampling_options.h"

namespace fathom::cli {

SamplingParameters MakeSamplingParameters(const SamplingOptions& options,
                                          const GenerationConfig& config,
                                          std::optional<std::int64_t> max_tokens) {
  SamplingParameters parameters = config.Sampling();
  parameters.temperature = options.temperature.value_or(parameters.temperature);
  parameters.top_p = options.top_p.value_or(parameters.top_p);
  parameters.top_k = options.top_k.value_or(0);
  parameters.min_p = options.min_p.value_or(0);
  parameters.repetition_penalty = options.repetition_penalty;
  parameters.presence_penalty = options.presence_penalty;
  parameters.frequency_penalty = options.frequency_penalty;
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
