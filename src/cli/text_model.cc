#include "cli/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/model_path.h"

namespace fathom::cli {

Result<TextModel> TextModel::Read(const std::filesystem::path& chosen) {
  Result<std::filesystem::path> directory = FindModel(chosen);
  if (!directory) return Unexpected(directory.error());
  Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<GenerationConfig> generation = ReadGenerationConfig(*directory);
  if (!generation) return Unexpected(generation.error());
  Result<Tokenizer> tokenizer = Tokenizer::Load(*directory);
  if (!tokenizer) return Unexpected(tokenizer.error());
  return TextModel{.directory = *std::move(directory),
                   .config = *std::move(config),
                   .generation = *std::move(generation),
                   .tokenizer = *std::move(tokenizer)};
}

GeneratorOptions MakeGeneratorOptions(const TextModel& model) {
  std::vector<Token> eos_tokens = model.generation.eos_tokens;
  const Token eos = static_cast<Token>(model.config.eos_token_id);
  if (std::find(eos_tokens.begin(), eos_tokens.end(), eos) == eos_tokens.end()) {
    eos_tokens.push_back(eos);
  }
  const Tokenizer* tokenizer = &model.tokenizer;
  return {.sequence = 0,
          .eos_tokens = std::move(eos_tokens),
          .token_bytes = [tokenizer](Token token) { return tokenizer->TokenBytes(token); }};
}

double PrefillRate(const GenerationTimings& timings) {
  const std::int64_t n_tokens = timings.prompt_tokens - timings.reused_tokens;
  return timings.prefill_seconds > 0 ? static_cast<double>(n_tokens) / timings.prefill_seconds : 0;
}

double DecodeRate(const GenerationTimings& timings) {
  // The first token comes out of the prefill.
  const std::int64_t n_steps = std::max<std::int64_t>(timings.generated_tokens - 1, 0);
  return timings.decode_seconds > 0 ? static_cast<double>(n_steps) / timings.decode_seconds : 0;
}

std::string DescribeTimings(double load_seconds, const GenerationResult& result) {
  return fmt::format(
      "load {:.2f} s; prompt {} tokens, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; "
      "seed {}",
      load_seconds, result.timings.prompt_tokens, PrefillRate(result.timings),
      result.timings.generated_tokens, DecodeRate(result.timings), result.seed);
}

}  // namespace fathom::cli
