// Sampler: the next token of a sequence (docs/spec/sampling.md 2, 5). Steps, in this order:
//
//   log-probabilities of the raw logits, if asked for
//   the end of the reasoning, where its budget is used up; done
//   the only token that a constraint leaves; done
//   -inf for every token that the constraint excludes (engine/allowed_tokens.h)
//   the choice from the row: sampling/token_chooser.h, or the same on a device
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/allowed_tokens.h"
#include "engine/constraint_path.h"
#include "engine/request.h"
#include "sampling/sampling_row.h"
#include "sampling/token_chooser.h"

namespace fathom::engine {

// The parameters and past tokens of one sequence. Allocates 12 bytes per token of the vocabulary
// once. One thread at a time.
class SamplerState {
 public:
  explicit SamplerState(std::int64_t vocab_size);

  // Starts a sequence. `parameters` must have passed Validate, and the tokens must be in the
  // vocabulary. `eos_tokens` end the answer unless parameters.ignore_eos is set; under a constraint
  // they always do.
  void Begin(const SamplingParameters& parameters, std::uint64_t seed,
             std::span<const Token> prompt, std::span<const Token> eos_tokens);
  // Call after Begin, with the tokens that the answer already has. `path` is the place after these
  // tokens, and advances with each Accept; null without a constraint. It must outlive its use.
  void Continue(std::span<const Token> generated, ConstraintPath* path);
  // Records a generated token.
  void Accept(Token token);
  // Returns the token that `position` of the sequence must have, whatever the logits are; none:
  // any.
  std::optional<Token> Forced(std::int64_t position) const;

  const SamplingParameters& parameters() const { return parameters_; }
  std::uint64_t seed() const { return rule_.seed; }
  std::int64_t n_generated() const { return n_generated_; }
  // Returns true if this token ends the answer.
  bool Ends(Token token) const;

  bool IsConstrained() const { return path_ != nullptr; }
  // Returns the tokens that the constraint allows at `position`, which follows the accepted tokens
  // and as many of the path's drafts as fit between. Waits for the mask. Errors:
  // AllowedTokens::Find.
  Result<AllowedTokens> Allowed(std::int64_t position) const;

  // Returns the row from which the token for `position` is chosen, as if `drafts` had been
  // accepted: all but the constraint and the budget of the reasoning. It refers to this state, or
  // with drafts to `counts`.
  SamplingRow Row(std::int64_t position, std::span<const Token> drafts,
                  std::vector<TokenCount>& counts) const;

 private:
  // Returns the count of a token, which begins with 0.
  std::int32_t& CountOf(Token token);
  void Count(Token token);
  // Fills `counts` with the counts after these drafts, and returns it.
  std::span<const TokenCount> CountDrafts(std::span<const Token> drafts,
                                          std::vector<TokenCount>& counts) const;

  const std::int64_t vocab_size_;
  SamplingParameters parameters_;
  std::int64_t n_prompt_ = 0;
  std::int64_t n_generated_ = 0;
  bool budget_ended_ = false;  // the token that ends parameters_.reasoning_budget was generated
  SamplingRule rule_;          // made from parameters_ and the seed
  std::vector<TokenBias> biases_;
  std::vector<Token> ending_tokens_;  // ascending, like the lists below
  std::vector<Token> stop_tokens_;    // stop tokens of the parameters
  std::vector<Token> eos_tokens_;
  ConstraintPath* path_ = nullptr;
  std::vector<TokenCount> counts_;   // tokens of the prompt and the output, each once
  std::vector<std::int32_t> place_;  // by token id: its index in counts_, or -1
};

// Holds scratch memory for one row at a time, allocated once; serves any number of sequences. One
// thread at a time.
class Sampler {
 public:
  explicit Sampler(std::int64_t vocab_size) : chooser_(vocab_size) {}

  // Returns the token for `position` of the sequence of `state`, which is not changed (call
  // Accept). logits: [vocab_size]. Errors: NaN or infinities; no token of the row is left. Fills
  // `logprobs` if parameters.top_logprobs is set. Allocates nothing if logprobs.top has room.
  Result<Token> Sample(std::span<const float> logits, const SamplerState& state,
                       std::int64_t position, TokenLogprobs& logprobs);

  // Fills `logprobs` as Sample does, for a token that has been chosen.
  static void AddLogprobs(std::span<const float> logits, Token token, const SamplerState& state,
                          TokenLogprobs& logprobs);

  // Computes the log-probabilities of `token` and of the `count` best tokens, from the logits that
  // choose the token at `position`. Errors: NaN or infinities.
  static Status Score(std::span<const float> logits, Token token, std::int64_t position, int count,
                      TokenLogprobs& logprobs);

  // Returns the token that Sample would choose from these logits, with the same noise and errors,
  // without logprobs. For a drafter's logits: if they resemble the model's, so does the choice
  // (docs/spec/sampling.md 3.2).
  Result<Token> Draft(std::span<const float> logits, const SamplerState& state,
                      std::int64_t position);

 private:
  Result<Token> DraftConstrained(std::span<const float> logits, const SamplingRow& row,
                                 const SamplerState& state, std::int64_t position);

  TokenChooser chooser_;
  std::vector<TokenCount> counts_;  // for the views of a row
};

// Returns the token that Sampler::Sample would choose without a constraint; `choice` was made from
// the logits and SamplerState::Row. Errors: see Sample.
Result<Token> ChosenToken(const TokenChoice& choice, const SamplerState& state,
                          std::int64_t position);

}  // namespace fathom::engine
