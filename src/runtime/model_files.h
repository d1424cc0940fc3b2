// Finds the directory of a model. ModelFiles: everything of a model but its weights: configuration,
// tokenizer, the sampling that its makers recommend.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "runtime/generation_config.h"
#include "tokenizer/tokenizer.h"

namespace fathom::runtime {

// Returns `chosen` (from --model or FATHOM_MODEL) if it is not empty; otherwise the embedded model,
// found from the running binary. Errors: there is no such directory; the loader reports missing
// files.
Result<std::filesystem::path> FindModel(const std::filesystem::path& chosen);

// Returns the embedded model of a binary at `binary`: <prefix>/share/fathom/models/fairy for an
// installed <prefix>/bin/fathom, or models/fairy in the directory of the binary or the nearest one
// above it (a build tree is inside the project). The error names the places that were searched.
Result<std::filesystem::path> FindEmbeddedModel(const std::filesystem::path& binary);

struct ModelFiles {
  // `chosen`: see FindModel.
  static Result<ModelFiles> Read(const std::filesystem::path& chosen);

  // Returns the tokens that end an answer, from config.json and generation_config.json.
  std::vector<Token> EosTokens() const;

  std::filesystem::path directory;
  ModelConfig config;
  GenerationConfig generation;
  Tokenizer tokenizer;
};

}  // namespace fathom::runtime
