// generation_config.json: how the makers of a model want it sampled (docs/spec/sampling.md 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/request.h"

namespace fathom {

struct GenerationConfig {
  double temperature = 1;
  double top_p = 1;
  std::vector<Token> eos_tokens;  // those of the file; config.json has one of its own
  // The model has learned to reason before it answers, as DeepSeek-V4 has: chats that do not choose
  // begin in the reasoning. "thinks": false says that it has not.
  bool thinks = true;
  // One line on what the model is for, which its users should know; empty: nothing is said.
  std::string description;

  // The sampling of requests that do not choose their own.
  SamplingParameters Sampling() const;
};

// Reads the file of a model's directory; the defaults if there is none. "do_sample": false is
// temperature 0. Errors name the field: not a number, out of the range that sampling allows; an end
// token that is not below vocab_size.
Result<GenerationConfig> ReadGenerationConfig(const std::filesystem::path& directory,
                                              std::int64_t vocab_size);
Result<GenerationConfig> ParseGenerationConfig(std::string_view text, std::string_view file_name);

}  // namespace fathom
