// Request: a prompt and its parameters; the value types of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::constraint {
class Constraint;  // constraint/constraint.h
}  // namespace fathom::constraint

namespace fathom::engine {

// Sampling is greedy below this temperature: it takes the most likely token and draws no random
// number.
inline constexpr double kGreedyTemperature = 1e-5;
inline constexpr int kMaxTopLogprobs = 20;
inline constexpr std::size_t kMaxStopStrings = 64;
inline constexpr std::size_t kMaxStopStringBytes = 2048;

// Returns the bytes of a token in a text; the view must be valid until the next call. Called from
// the engine's thread.
using TokenBytes = std::function<std::string_view(Token)>;

// A limit on a part of the answer: once `n_tokens` tokens are generated and none of them is `end`,
// the next token is `end`, whatever the logits are.
struct TokenBudget {
  std::int64_t n_tokens = 0;  // at least 0
  Token end = 0;
};

// Parameters that decide the next token and the end of the answer (docs/spec/sampling.md 1, 2, 8).
// Each field's comment gives the allowed range; Validate enforces it.
struct SamplingParameters {
  double temperature = 1.0;         // 0 to 2; 0 is greedy
  double top_p = 1.0;               // 0 to 1; 0 leaves the best token, 1 is off
  std::int64_t top_k = 0;           // 0 to the vocabulary size; 0 is off
  double min_p = 0.0;               // 0 to 1; 0 is off
  double repetition_penalty = 1.0;  // 0.01 to 100, on tokens of prompt and output; 1 is off
  double presence_penalty = 0.0;    // -2 to 2, on tokens of the output
  double frequency_penalty = 0.0;   // -2 to 2, per occurrence in the output
  // Added to the logits; values beyond +-100 act as +-100.
  std::map<Token, double> logit_bias;
  // The number of best tokens reported beside the chosen one: 0 to kMaxTopLogprobs. None: off.
  std::optional<int> top_logprobs;
  std::optional<std::uint64_t> seed;  // none: drawn by the operating system
  std::uint32_t choice = 0;           // number of this answer to the prompt; changes the noise
  // Tokens to generate, at least 0; none: until the context is full. 0 only fills the cache.
  std::optional<std::int64_t> max_tokens;
  // Tokens that would end the answer are excluded until the answer has this many tokens: 0 to
  // max_tokens.
  std::int64_t min_tokens = 0;
  std::vector<std::string> stop_strings;  // each not empty
  // Stop strings are searched after the first occurrence of this token; none: from the beginning.
  std::optional<Token> stop_strings_from;
  // Stop strings are searched up to the first later occurrence of this token; none: to the end.
  std::optional<Token> stop_strings_until;
  // Limits the reasoning with which the answer begins and which `end` ends; none: no limit.
  std::optional<TokenBudget> reasoning_budget;
  std::vector<Token> stop_tokens;  // end the answer like EOS
  bool ignore_eos = false;         // EOS is a token like any other
  // Restricts the tokens; its masks apply before all other parameters (docs/spec/constrained.md
  // 1.4). All choices share it. Null: no restriction.
  std::shared_ptr<const Constraint> constraint{};
  std::vector<Token> silent_tokens;  // tokens without text, for readers and for stop strings

  bool IsGreedy() const { return temperature < kGreedyTemperature; }
};

// Errors: the first field out of range, with its name, the allowed range and the value found.
Status Validate(const SamplingParameters& parameters, std::int64_t vocab_size);

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxPriority = 100;

struct Request {
  std::vector<Token> prompt;    // at least 1 token
  SamplingParameters sampling;  // for every choice; choice j samples with sampling.choice + j
  int n_choices = 1;            // number of answers to the prompt: 1 to kMaxChoices
  int priority = 0;             // -kMaxPriority to kMaxPriority; the larger runs first
  // The number of best tokens reported with the log-probability of each prompt token: 0 to
  // kMaxTopLogprobs. None: off. Otherwise the whole prompt is computed, even its cached part.
  std::optional<int> prompt_logprobs{};
  // Only requests with equal salts share cached blocks, so that no client can learn another's
  // prompts from the time of a request or from its cached tokens. Changes no answer.
  std::string cache_salt{};
  // Names the client, for example by its key: the clients' masks are computed in turn
  // (mask_pool.h). Changes no answer.
  std::string owner{};
};

// The limits of an engine, with which no request can be answered that exceeds them.
struct EngineLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;
  std::int64_t most_positions = 0;  // positions for which there is cache memory
  std::int64_t cache_bytes = 0;
  bool knows_text = false;  // the bytes of tokens are known
};

// Checks whether a request can ever be answered. Errors name the field.
Status CheckRequest(const Request& request, const EngineLimits& limits);

enum class FinishReason {
  kStop,        // EOS or a stop token
  kStopString,  // the text contained a stop string, and ends before it
  kLength,      // max_tokens, or the context is full
  kCancelled,   // by the reader or by a shutdown
  kError,       // see the error of the event
};
// "stop", "stop_string", "length", "cancelled", "error"
std::string_view Name(FinishReason reason);

struct TokenLogprob {
  Token token = 0;
  // Natural logarithm of the probability, before penalties, bias and temperature.
  float logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::int64_t rank = 0;  // number of tokens at least as probable as the chosen one, including it
  // By descending logprob, ties lowest id first. May or may not contain the chosen token.
  std::vector<TokenLogprob> top;
};

}  // namespace fathom::engine
