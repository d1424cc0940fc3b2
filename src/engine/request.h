// What a request asks for, and what it gets back: the value types of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom {

// Below this temperature the best token is taken and nothing is drawn.
inline constexpr double kGreedyTemperature = 1e-5;
inline constexpr int kMaxTopLogprobs = 20;
inline constexpr std::size_t kMaxStopStrings = 64;
inline constexpr std::size_t kMaxStopStringBytes = 1024;

// The bytes of a token as they stand in the text; the view must live until the next call. Called
// from the engine's thread.
using TokenBytes = std::function<std::string_view(Token)>;

// How to choose the next token and when to stop (docs/spec/sampling.md 1, 2, 8). The allowed range
// of a field stands beside it; Validate enforces it.
struct SamplingParameters {
  double temperature = 1.0;         // 0 to 2; 0 is greedy
  double top_p = 1.0;               // above 0, to 1; 1 is off
  std::int64_t top_k = 0;           // 0 to the vocabulary size; 0 is off
  double min_p = 0.0;               // 0 to 1; 0 is off
  double repetition_penalty = 1.0;  // 0.01 to 100, on tokens of prompt and output; 1 is off
  double presence_penalty = 0.0;    // -2 to 2, on tokens of the output
  double frequency_penalty = 0.0;   // -2 to 2, per occurrence in the output
  // Added to the logits; values beyond +-100 act as +-100.
  std::map<Token, double> logit_bias;
  // Off, or how many of the best tokens are reported beside the chosen one: 0 to kMaxTopLogprobs.
  std::optional<int> top_logprobs;
  std::optional<std::uint64_t> seed;  // none: drawn from the operating system
  std::uint32_t choice = 0;           // which of several answers to one prompt; part of the noise
  // Tokens to generate, at least 0; none: until the context is full. 0 only fills the cache.
  std::optional<std::int64_t> max_tokens;
  // No token that would end the answer is chosen before this many: 0 to max_tokens.
  std::int64_t min_tokens = 0;
  std::vector<std::string> stop_strings;  // none empty
  // Stop strings are looked for behind the first of this token; none: from the beginning.
  std::optional<Token> stop_strings_from;
  // And from there on up to the first of this token; none: to the end.
  std::optional<Token> stop_strings_until;
  std::vector<Token> stop_tokens;    // end the answer like EOS
  bool ignore_eos = false;           // EOS is a token like any other
  std::vector<Token> silent_tokens;  // have no text, neither for the reader nor for stop strings

  bool IsGreedy() const { return temperature < kGreedyTemperature; }
};

// The first field out of its range: its name, what is allowed, what was found.
Status Validate(const SamplingParameters& parameters, std::int64_t vocab_size);

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxPriority = 100;

struct Request {
  std::vector<Token> prompt;    // at least 1 token
  SamplingParameters sampling;  // of every choice; choice j of them draws as sampling.choice + j
  int n_choices = 1;            // answers to the same prompt: 1 to kMaxChoices
  int priority = 0;             // -kMaxPriority to kMaxPriority; the larger runs first
};

enum class FinishReason {
  kStop,        // EOS or a stop token
  kStopString,  // the text contains a stop string; it ends before it
  kLength,      // max_tokens, or the context is full
  kCancelled,   // by the reader or a shutdown
  kError,       // the event says which
};
// "stop", "stop_string", "length", "cancelled", "error"
std::string_view Name(FinishReason reason);

struct TokenLogprob {
  Token token = 0;
  float logprob = 0;  // natural logarithm of the probability before any processing
};

struct TokenLogprobs {
  TokenLogprob chosen;
  // By descending logprob, ties lowest id first. May or may not contain the chosen token.
  std::vector<TokenLogprob> top;
};

}  // namespace fathom
