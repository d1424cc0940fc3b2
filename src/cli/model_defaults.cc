#include "cli/model_defaults.h"

#include <fmt/format.h>

#include <memory>
#include <system_error>

#include "engine/sampling_fields.h"
#include "runtime/build_info.h"
#include "runtime/model_constraints.h"

namespace fathom::cli {
namespace {

// Returns the last part of the path, however the path is written.
std::string DirectoryName(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::canonical(directory, ignored).filename().string();
}

}  // namespace

Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log) {
  if (!name.empty()) return FindProfile(name);
  const ProfileDetection detection = DetectProfile(model);
  if (!detection.is_certain) {
    log.Warn(
        "{}: {}; assuming {}, choose with --prompt-profile", model.string(),
        detection.evidence.empty()
            ? "nothing says which chat format it was trained on"
            : fmt::format("only {} says which chat format it was trained on", detection.evidence),
        detection.profile.name);
  }
  return detection.profile;
}

ThinkingMode DefaultThinking(std::optional<bool> chosen, const GenerationConfig& config) {
  return chosen.value_or(config.thinks) ? ThinkingMode::kThinking : ThinkingMode::kChat;
}

SamplingParameters MakeSamplingParameters(const SamplingOptions& options,
                                          const GenerationConfig& config) {
  SamplingParameters parameters = options;
  parameters.temperature = config.temperature;
  parameters.top_p = config.top_p;
  for (const SamplingField& field : SamplingFields()) {
    const auto given = options.fields.find(field.name);
    if (given != options.fields.end()) field.Set(given->second, parameters);
  }
  return parameters;
}

namespace {

Status AddConstraints(const ApiCommand& command, const ModelFiles& model, ApiModel& api) {
  constexpr std::int64_t kLeast = std::int64_t{64} << 20;  // compiling a constraint takes as much
  const std::int64_t max_memory = command.constraint_memory.value_or(DefaultConstraintMemory());
  if (max_memory < kLeast) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--constraint-memory: expected at least 64M, found {} bytes", max_memory);
  }
  const auto constraints = std::make_shared<ModelConstraints>(model, max_memory);
  api.compile_constraint = [constraints](const ConstraintSpec& spec, const Caller& caller) {
    return constraints->Compile(spec, caller);
  };
  api.constraint_memory = [constraints] {
    return ConstraintMemoryUse{.used = constraints->memory_used(),
                               .limit = constraints->memory_limit()};
  };
  return {};
}

}  // namespace

Result<ApiModel> MakeApiModel(const ApiCommand& command, std::int64_t n_context,
                              std::int64_t max_choices, const ModelFiles& model, Log& log) {
  const Result<PromptProfile> profile = ChooseProfile(command.profile, model.directory, log);
  if (!profile) return Unexpected(profile.error());
  ApiModel api = {.tokenizer = &model.tokenizer,
                  .profile = *profile,
                  .bos = static_cast<Token>(model.config.bos_token_id),
                  .eos = static_cast<Token>(model.config.eos_token_id),
                  .name = DirectoryName(model.directory),
                  .fingerprint = fmt::format("fathom-{}", GetBuildInfo().commit),
                  .limits = {.vocab_size = model.config.vocab_size,
                             .max_context = n_context,
                             .max_choices = max_choices},
                  .defaults = command.defaults};
  api.defaults.sampling = MakeSamplingParameters(command.sampling, model.generation);
  api.defaults.encoding.thinking = DefaultThinking(command.thinking, model.generation);
  if (Status added = AddConstraints(command, model, api); !added) return Unexpected(added.error());
  api.defaults.messages_think = command.thinking == true;
  const Status valid = Validate(api.defaults.sampling, model.config.vocab_size);
  if (!valid) return Unexpected(valid.error());
  return api;
}

}  // namespace fathom::cli
