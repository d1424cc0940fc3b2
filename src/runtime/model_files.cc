#include "runtime/model_files.h"

#include <algorithm>
#include <utility>

#include "runtime/model_path.h"

namespace fathom {

Result<ModelFiles> ModelFiles::Read(const std::filesystem::path& chosen) {
  Result<std::filesystem::path> directory = FindModel(chosen);
  if (!directory) return Unexpected(directory.error());
  Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<GenerationConfig> generation = ReadGenerationConfig(*directory);
  if (!generation) return Unexpected(generation.error());
  Result<Tokenizer> tokenizer = Tokenizer::Load(*directory);
  if (!tokenizer) return Unexpected(tokenizer.error());
  return ModelFiles{.directory = *std::move(directory),
                    .config = *std::move(config),
                    .generation = *std::move(generation),
                    .tokenizer = *std::move(tokenizer)};
}

std::vector<Token> ModelFiles::EosTokens() const {
  std::vector<Token> eos_tokens = generation.eos_tokens;
  const Token eos = static_cast<Token>(config.eos_token_id);
  if (std::find(eos_tokens.begin(), eos_tokens.end(), eos) == eos_tokens.end()) {
    eos_tokens.push_back(eos);
  }
  return eos_tokens;
}

}  // namespace fathom
