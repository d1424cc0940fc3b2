// generation_config.json: the sampling that the makers of a model recommend (docs/spec/sampling.md
// 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::runtime {

struct GenerationConfig {
  double temperature = 1;
  double top_p = 1;
  std::vector<Token> eos_tokens;  // only the file's tokens; config.json has another
  // The model was trained to reason before it answers, like DeepSeek-V4: chats that do not choose
  // begin in the reasoning. "thinks": false means that it was not.
  bool thinks = true;
  // One line about the purpose of the model for its users; empty: none.
  std::string description;
};

// Reads the file in a model's directory; returns the defaults if there is none. "do_sample": false
// means temperature 0. Errors name the field: not a number, out of the range that sampling allows;
// an end token that is not below vocab_size.
Result<GenerationConfig> ReadGenerationConfig(const std::filesystem::path& directory,
                                              std::int64_t vocab_size);
Result<GenerationConfig> ParseGenerationConfig(std::string_view text, std::string_view file_name);

}  // namespace fathom::runtime
