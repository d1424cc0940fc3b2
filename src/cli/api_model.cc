#include "cli/api_model.h"

#include <fmt/format.h>

#include <system_error>

#include "cli/chat_profile.h"
#include "cli/sampling_options.h"
#include "runtime/build_info.h"

namespace fathom::cli {
namespace {

// The last part of the path, however it is written.
std::string DirectoryName(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::canonical(directory, ignored).filename().string();
}

}  // namespace

Result<ApiModel> MakeApiModel(const ApiModelOptions& options, const ModelFiles& model, Log& log) {
  const Result<PromptProfile> profile = ChooseProfile(options.profile, model.directory, log);
  if (!profile) return Unexpected(profile.error());
  ApiModel api = {.tokenizer = &model.tokenizer,
                  .profile = *profile,
                  .bos = static_cast<Token>(model.config.bos_token_id),
                  .name = DirectoryName(model.directory),
                  .fingerprint = fmt::format("fathom-{}", GetBuildInfo().commit),
                  .limits = {.vocab_size = model.config.vocab_size,
                             .max_context = options.n_context,
                             .max_choices = options.max_choices}};
  api.defaults.sampling =
      MakeSamplingParameters(options.sampling, model.generation, options.sampling.max_tokens);
  api.defaults.encoding.thinking = options.thinking ? ThinkingMode::kThinking : ThinkingMode::kChat;
  const Status valid = Validate(api.defaults.sampling, model.config.vocab_size);
  if (!valid) return Unexpected(valid.error());
  return api;
}

}  // namespace fathom::cli
