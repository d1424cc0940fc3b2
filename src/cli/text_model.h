// A model with its tokenizer and the defaults of its makers: what generate and chat both begin
// with.
#ifndef FATHOM_CLI_TEXT_MODEL_H_
#define FATHOM_CLI_TEXT_MODEL_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "cli/generation_config.h"
#include "engine/generator.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {

// Everything but the weights, which come after what can go wrong without them.
struct TextModel {
  static Result<TextModel> Read(const std::filesystem::path& chosen);

  std::filesystem::path directory;
  ModelConfig config;
  GenerationConfig generation;
  Tokenizer tokenizer;
};

// For slot 0 of the model; `model` must outlive the generator.
GeneratorOptions MakeGeneratorOptions(const TextModel& model);

// "load 0.05 s; prompt 14 tokens, 2345 tokens/s; generated 99 tokens, 432.1 tokens/s; seed 7"
std::string DescribeTimings(double load_seconds, const GenerationResult& result);

// Tokens per second; 0 if nothing was measured.
double PrefillRate(const GenerationTimings& timings);
double DecodeRate(const GenerationTimings& timings);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_TEXT_MODEL_H_
