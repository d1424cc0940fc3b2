// A model as the APIs see it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "api/common/api_call.h"
#include "base/result.h"
#include "cli/options/options.h"
#include "cli/terminal/log.h"
#include "runtime/model_files.h"

namespace fathom::cli {

struct ApiModelOptions {
  const SamplingOptions& sampling;  // of requests that do not say otherwise
  bool thinking = true;             // of chats that do not
  const std::string& profile;       // empty: what the model's directory says
  std::int64_t n_context = 1;
  std::int64_t max_choices = 1;
};

// `model` must outlive it. Errors: an unknown profile, sampling out of range.
Result<ApiModel> MakeApiModel(const ApiModelOptions& options, const ModelFiles& model, Log& log);

}  // namespace fathom::cli
