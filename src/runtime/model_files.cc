#include "runtime/model_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace fathom::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInstalled = "share/fathom/models/fairy";
constexpr const char* kInProject = "models/fairy";

bool HoldsModel(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_regular_file(directory / "config.json", ignored);
}

// Returns true for "deepseek-ai/DeepSeek-V4-Flash": other servers download a model with such a
// name.
bool LooksLikeRepository(const fs::path& chosen) {
  const std::string text = chosen.string();
  std::error_code ignored;
  return std::ranges::count(text, '/') == 1 && text.front() != '/' && text.front() != '.' &&
         text.front() != '~' && text.back() != '/' && !fs::exists(chosen.parent_path(), ignored);
}

constexpr const char* kDownloadIt =
    "; this looks like the name of a repository: download it (hf download NAME --local-dir DIR), "
    "then name the directory with --model DIR";
constexpr const char* kNoGguf =
    "GGUF is not read: expected the directory of the published checkpoint, whose weights are "
    "safetensors";

bool IsGguf(const fs::path& file) { return file.extension() == ".gguf"; }

Result<fs::path> ExplainFile(const fs::path& file) {
  if (IsGguf(file)) {
    return MakeError(ErrorCode::kUnsupported, "{}: {}", file.string(), kNoGguf);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: expected the directory of a model, found a file", file.string());
}

// Returns the first matching entry of a directory; empty: none matches, or no such directory.
fs::path FindEntry(const fs::path& directory, bool (*fits)(const fs::path&)) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (fits(entry->path())) return entry->path();
  }
  return {};
}

// Returns an error that explains a directory without config.json, if its kind is known.
Status ExplainDirectory(const fs::path& directory) {
  const fs::path gguf = FindEntry(directory, IsGguf);
  if (!gguf.empty()) {
    return MakeError(ErrorCode::kUnsupported, "{}: {}", gguf.string(), kNoGguf);
  }
  // A hub's cache: models--ORG--NAME/snapshots/COMMIT.
  const fs::path snapshot = FindEntry(directory / "snapshots", HoldsModel);
  if (snapshot.empty()) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: a folder of a hub's cache: the model is in its snapshot, --model {}",
                   directory.string(), snapshot.string());
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
    return MakeError(ErrorCode::kNotFound, "{}: no such model directory{}", chosen.string(),
                     LooksLikeRepository(chosen) ? kDownloadIt : "");
  }
  if (error) return MakeError(ErrorCode::kIo, "{}: {}", chosen.string(), error.message());
  if (!fs::is_directory(status)) return ExplainFile(chosen);
  if (!HoldsModel(chosen)) {
    if (Status known = ExplainDirectory(chosen); !known) return Unexpected(known.error());
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
  const auto add = [&](std::int64_t id) {
    const Token eos = static_cast<Token>(id);
    if (std::ranges::find(eos_tokens, eos) == eos_tokens.end()) eos_tokens.push_back(eos);
  };
  add(config.eos_token_id);
  std::ranges::for_each(config.other_eos_token_ids, add);
  return eos_tokens;
}

}  // namespace fathom::runtime
