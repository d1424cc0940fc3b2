#include "runtime/model_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInstalled = "share/fathom/models/fairy";
constexpr const char* kInProject = "models/fairy";

bool HoldsModel(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_regular_file(directory / "config.json", ignored);
}

}  // namespace

Result<fs::path> FindEmbeddedModel(const fs::path& binary) {
  const fs::path home = binary.parent_path();
  const fs::path installed = home.parent_path() / kInstalled;
  if (HoldsModel(installed)) return installed;
  for (fs::path directory = home;; directory = directory.parent_path()) {
    if (HoldsModel(directory / kInProject)) return directory / kInProject;
    if (directory == directory.parent_path()) {
      return MakeError(ErrorCode::kNotFound,
                       "the embedded model was not found: neither {} nor {} in {} or a directory "
                       "above it; name a model with --model DIR",
                       installed.string(), kInProject, home.string());
    }
  }
}

Result<fs::path> FindModel(const fs::path& chosen) {
  std::error_code error;
  if (chosen.empty()) {
    const fs::path binary = fs::read_symlink("/proc/self/exe", error);
    if (error) {
      return MakeError(ErrorCode::kIo,
                       "cannot find out where this program is ({}); name a model with --model DIR",
                       error.message());
    }
    return FindEmbeddedModel(binary);
  }
  const fs::file_status status = fs::status(chosen, error);
  if (status.type() == fs::file_type::not_found) {
    return MakeError(ErrorCode::kNotFound, "{}: no such model directory", chosen.string());
  }
  if (error) return MakeError(ErrorCode::kIo, "{}: {}", chosen.string(), error.message());
  if (!fs::is_directory(status)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected the directory of a model, found a file", chosen.string());
  }
  return chosen;
}

Result<ModelFiles> ModelFiles::Read(const std::filesystem::path& chosen) {
  Result<std::filesystem::path> directory = FindModel(chosen);
  if (!directory) return Unexpected(directory.error());
  Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<GenerationConfig> generation = ReadGenerationConfig(*directory, config->vocab_size);
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
