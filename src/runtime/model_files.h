// ModelFiles: everything of a model but its weights: configuration, tokenizer, the sampling that
// its makers recommend.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "runtime/generation_config.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

struct ModelFiles {
  // `chosen` as FindModel takes it.
  static Result<ModelFiles> Read(const std::filesystem::path& chosen);

  // The tokens that end an answer, by config.json and by generation_config.json.
  std::vector<Token> EosTokens() const;

  std::filesystem::path directory;
  ModelConfig config;
  GenerationConfig generation;
  Tokenizer tokenizer;
};

}  // namespace fathom
