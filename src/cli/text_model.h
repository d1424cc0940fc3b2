// A model with its tokenizer and the defaults of its makers: what an engine does not know
// of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "cli/generation_config.h"
#include "engine/token_stream.h"
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

// The tokens that end an answer, by config.json and by generation_config.json.
std::vector<Token> EosTokens(const TextModel& model);

// "load 0.05 s; prompt 140 tokens (128 cached), 2345 tokens/s; generated 99 tokens, 432.1 tokens/s;
// seed 7"
std::string DescribeStats(double load_seconds, const RequestStats& stats);

// Tokens computed per second; 0 if nothing was measured.
double PrefillRate(const RequestStats& stats);
double DecodeRate(const RequestStats& stats);

}  // namespace fathom::cli
