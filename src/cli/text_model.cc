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

std::vector<Token> EosTokens(const TextModel& model) {
  std::vector<Token> eos_tokens = model.generation.eos_tokens;
  const Token eos = static_cast<Token>(model.config.eos_token_id);
  if (std::find(eos_tokens.begin(), eos_tokens.end(), eos) == eos_tokens.end()) {
    eos_tokens.push_back(eos);
  }
  return eos_tokens;
}

double PrefillRate(const RequestStats& stats) {
  const std::int64_t n_tokens = stats.prompt_tokens - stats.cached_tokens;
  return stats.prefill_seconds > 0 ? static_cast<double>(n_tokens) / stats.prefill_seconds : 0;
}

double DecodeRate(const RequestStats& stats) {
  // The first token comes out of the prefill.
  const std::int64_t n_tokens = std::max<std::int64_t>(stats.generated_tokens - 1, 0);
  return stats.decode_seconds > 0 ? static_cast<double>(n_tokens) / stats.decode_seconds : 0;
}

std::string DescribeStats(double load_seconds, const RequestStats& stats) {
  const std::string cached =
      stats.cached_tokens > 0 ? fmt::format(" ({} cached)", stats.cached_tokens) : "";
  return fmt::format(
      "load {:.2f} s; prompt {} tokens{}, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; "
      "seed {}",
      load_seconds, stats.prompt_tokens, cached, PrefillRate(stats), stats.generated_tokens,
      DecodeRate(stats), stats.seed);
}

}  // namespace fathom::cli
