#include "engine/sampler.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "engine/logprobs.h"

namespace fathom::engine {
namespace {

constexpr double kLargestBias = 100;

tl::unexpected<Error> NotFiniteError(std::int64_t position, Token token, float logit) {
  return MakeError(ErrorCode::kInvalidData,
                   "logits for position {}: expected finite numbers, found {} for token {}",
                   position, logit, token);
}

tl::unexpected<Error> NothingLeftError(std::int64_t position, float largest) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "logits for position {}: expected a token that min_tokens, logit_bias and "
                   "penalties leave possible, found {} as the largest",
                   position, largest);
}

bool HasPenalties(const SamplingRule& rule) {
  return rule.repetition != 1 || rule.frequency != 0 || rule.presence != 0;
}

SamplingRule MakeRule(const SamplingParameters& parameters, std::uint64_t seed) {
  return {.seed = seed,
          .choice = parameters.choice,
          .top_p = parameters.top_p,
          .lowest = LowestOfMinP(parameters.min_p),
          .top_k = parameters.top_k,
          .temperature = static_cast<float>(parameters.temperature),
          .repetition = static_cast<float>(parameters.repetition_penalty),
          .frequency = static_cast<float>(parameters.frequency_penalty),
          .presence = static_cast<float>(parameters.presence_penalty),
          .is_greedy = parameters.IsGreedy(),
          .truncates = parameters.min_p > 0 || parameters.top_k > 0 || parameters.top_p < 1};
}

void SortUnique(std::vector<Token>& tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

}  // namespace

SamplerState::SamplerState(std::int64_t vocab_size)
    : vocab_size_(vocab_size), place_(static_cast<std::size_t>(vocab_size), -1) {
  counts_.reserve(static_cast<std::size_t>(vocab_size));
}

void SamplerState::Begin(const SamplingParameters& parameters, std::uint64_t seed,
                         std::span<const Token> prompt, std::span<const Token> eos_tokens) {
  parameters_ = parameters;
  n_prompt_ = static_cast<std::int64_t>(prompt.size());
  n_generated_ = 0;
  budget_ended_ = false;
  parameters_.constraint = nullptr;  // the path holds the constraint
  path_ = nullptr;
  stop_tokens_ = parameters.stop_tokens;
  eos_tokens_.assign(eos_tokens.begin(), eos_tokens.end());
  ending_tokens_ = stop_tokens_;
  if (!parameters.ignore_eos || parameters.constraint != nullptr) {
    ending_tokens_.insert(ending_tokens_.end(), eos_tokens.begin(), eos_tokens.end());
  }
  for (std::vector<Token>* tokens : {&stop_tokens_, &eos_tokens_, &ending_tokens_}) {
    SortUnique(*tokens);
  }
  for (const TokenCount& counted : counts_) place_[static_cast<std::size_t>(counted.token)] = -1;
  counts_.clear();
  rule_ = MakeRule(parameters, seed);
  biases_.clear();
  for (const auto& [token, bias] : parameters.logit_bias) {
    biases_.push_back({token, static_cast<float>(std::clamp(bias, -kLargestBias, kLargestBias))});
  }
  for (const Token token : prompt) {
    CountOf(token);
  }
}

std::int32_t& SamplerState::CountOf(Token token) {
  Check(token >= 0 && token < vocab_size_, "token in vocabulary");
  std::int32_t& place = place_[static_cast<std::size_t>(token)];
  if (place < 0) {
    place = static_cast<std::int32_t>(std::ssize(counts_));
    counts_.push_back({token, 0});
  }
  return counts_[static_cast<std::size_t>(place)].count;
}

void SamplerState::Continue(std::span<const Token> generated, ConstraintPath* path) {
  for (const Token token : generated) {
    Count(token);
  }
  path_ = path;
}

void SamplerState::Accept(Token token) {
  Count(token);
  if (path_ != nullptr && !Ends(token)) {
    path_->Accept(token);
  }
}

void SamplerState::Count(Token token) {
  ++CountOf(token);
  ++n_generated_;
  const std::optional<TokenBudget>& budget = parameters_.reasoning_budget;
  budget_ended_ = budget_ended_ || (budget && token == budget->end);
}

std::optional<Token> SamplerState::Forced(std::int64_t position) const {
  const std::optional<TokenBudget>& budget = parameters_.reasoning_budget;
  const bool is_due = budget && !budget_ended_ && position == n_prompt_ + budget->n_tokens;
  return is_due ? std::optional(budget->end) : std::nullopt;
}

bool SamplerState::Ends(Token token) const {
  return std::ranges::binary_search(ending_tokens_, token);
}

Result<AllowedTokens> SamplerState::Allowed(std::int64_t position) const {
  const std::int64_t n_drafts = position - n_prompt_ - n_generated_;
  std::span<const Token> postponed;
  if (n_generated_ + n_drafts < parameters_.min_tokens) {
    postponed = ending_tokens_;
  } else if (parameters_.ignore_eos) {
    postponed = eos_tokens_;
  }
  return AllowedTokens::Find(path_->Find(static_cast<std::size_t>(n_drafts)), stop_tokens_,
                             postponed, vocab_size_);
}

std::span<const TokenCount> SamplerState::CountDrafts(std::span<const Token> drafts,
                                                      std::vector<TokenCount>& counts) const {
  constexpr std::size_t kLeastRoom = 1024;
  const std::size_t n = counts_.size() + drafts.size();
  if (counts.capacity() < n) counts.reserve(std::max(2 * n, kLeastRoom));
  counts = counts_;
  for (const Token draft : drafts) {
    const auto found = std::ranges::find(counts, draft, &TokenCount::token);
    if (found == counts.end()) {
      counts.push_back({draft, 1});
    } else {
      ++found->count;
    }
  }
  return counts;
}

SamplingRow SamplerState::Row(std::int64_t position, std::span<const Token> drafts,
                              std::vector<TokenCount>& counts) const {
  SamplingRow row = {.rule = rule_, .biases = biases_};
  row.rule.position = static_cast<std::uint32_t>(position);
  if (!IsConstrained() && n_generated_ + std::ssize(drafts) < parameters_.min_tokens) {
    row.excluded = ending_tokens_;
  }
  if (HasPenalties(rule_)) {
    row.counts =
        drafts.empty() ? std::span<const TokenCount>(counts_) : CountDrafts(drafts, counts);
  }
  row.rule.changes_logits = !row.excluded.empty() || !row.biases.empty() || !row.counts.empty();
  return row;
}

Result<Token> Sampler::Sample(std::span<const float> logits, const SamplerState& state,
                              std::int64_t position, TokenLogprobs& logprobs) {
  const Result<Token> token = Draft(logits, state, position);
  if (token) AddLogprobs(logits, *token, state, logprobs);
  return token;
}

void Sampler::AddLogprobs(std::span<const float> logits, Token token, const SamplerState& state,
                          TokenLogprobs& logprobs) {
  if (const std::optional<int>& count = state.parameters().top_logprobs) {
    ComputeLogprobs(logits, token, *count, logprobs);
  }
}

Status Sampler::Score(std::span<const float> logits, Token token, std::int64_t position, int count,
                      TokenLogprobs& logprobs) {
  const TokenChoice largest = TokenChooser::FindLargest(logits);
  if (largest.outcome == ChoiceOutcome::kNotFinite) {
    return NotFiniteError(position, largest.token, largest.logit);
  }
  ComputeLogprobs(logits, token, count, logprobs);
  return {};
}

Result<Token> Sampler::Draft(std::span<const float> logits, const SamplerState& state,
                             std::int64_t position) {
  const SamplingRow row = state.Row(position, {}, counts_);
  if (state.IsConstrained()) return DraftConstrained(logits, row, state, position);
  return ChosenToken(chooser_.Choose(logits, row), state, position);
}

Result<Token> Sampler::DraftConstrained(std::span<const float> logits, const SamplingRow& row,
                                        const SamplerState& state, std::int64_t position) {
  const Result<AllowedTokens> allowed = state.Allowed(position);
  if (!allowed) return Unexpected(allowed.error());
  const std::optional<Token> forced = state.Forced(position);
  if (forced && !allowed->Has(*forced)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a constraint that allows the end of the reasoning (token {}) at "
                     "position {}, where its budget is used up",
                     kConstraintUnsatisfiable, *forced, position);
  }
  const std::optional<Token> only = forced ? forced : allowed->Only();
  if (!only) {
    const auto exclude = [&allowed](std::span<float> changed) { allowed->Apply(changed); };
    return ChosenToken(chooser_.Choose(logits, row, std::cref(exclude)), state, position);
  }
  TokenChoice choice = TokenChooser::FindLargest(logits);
  if (choice.outcome == ChoiceOutcome::kToken) choice.token = *only;
  return ChosenToken(choice, state, position);
}

Result<Token> ChosenToken(const TokenChoice& choice, const SamplerState& state,
                          std::int64_t position) {
  if (choice.outcome == ChoiceOutcome::kNotFinite) {
    return NotFiniteError(position, choice.token, choice.logit);
  }
  if (const std::optional<Token> forced = state.Forced(position)) return *forced;
  if (choice.outcome == ChoiceOutcome::kNothingIsLeft) {
    return NothingLeftError(position, choice.logit);
  }
  return choice.token;
}

}  // namespace fathom::engine
