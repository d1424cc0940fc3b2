#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/logprobs.h"
#include "sampling/gumbel_noise.h"

namespace fathom {
namespace {

constexpr double kLargestBias = 100;

// `best` is the index of the largest logit. It is offered first, so that most of the vocabulary can
// be skipped before any noise is computed.
Token DrawFromAll(std::span<const float> logits, Token best, float temperature,
                  const GumbelNoise& noise) {
  const float largest = logits[static_cast<std::size_t>(best)];
  NoisyMaximum maximum;
  const auto best_id = static_cast<std::uint32_t>(best);
  maximum.Offer(0.0f, best, noise.Block(best_id / 4)[best_id % 4]);
  for (std::size_t first = 0; first < logits.size(); first += 4) {
    const std::size_t end = std::min(first + 4, logits.size());
    float z[4];
    float largest_z = kExcludedLogit;
    for (std::size_t i = first; i < end; ++i) {
      z[i - first] = ScaledLogit(logits[i], largest, temperature);
      largest_z = std::max(largest_z, z[i - first]);
    }
    if (maximum.OutOfReach(largest_z)) continue;
    const std::array<std::uint32_t, 4> bits = noise.Block(static_cast<std::uint32_t>(first / 4));
    for (std::size_t i = first; i < end; ++i) {
      maximum.Offer(z[i - first], static_cast<Token>(i), bits[i - first]);
    }
  }
  return maximum.token();
}

Token DrawFrom(std::span<const Candidate> candidates, const GumbelNoise& noise) {
  NoisyMaximum maximum;
  for (const Candidate& candidate : candidates) {
    if (maximum.OutOfReach(candidate.logit)) continue;
    const auto id = static_cast<std::uint32_t>(candidate.token);
    maximum.Offer(candidate.logit, candidate.token, noise.Block(id / 4)[id % 4]);
  }
  return maximum.token();
}

// The facts about a row of logits that sampling needs.
struct RowScan {
  bool all_finite = true;
  std::size_t largest = 0;  // index of the largest logit, the first among equals; valid without NaN
};

// One pass over the row, in pieces whose maxima are kept per lane, so that the compiler vectorises
// them (it would unroll a loop over fewer lanes instead); only the piece with the largest value is
// scanned again.
RowScan ScanRow(std::span<const float> values) {
  constexpr std::size_t kLanes = 32;
  constexpr std::size_t kPiece = 8 * kLanes;
  RowScan scan;
  float largest = -std::numeric_limits<float>::infinity();
  std::size_t best_piece = 0;
  // Zero times a number is zero, unless it is infinite or NaN.
  float zeros[kLanes] = {};
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    const std::size_t end = std::min(first + kPiece, values.size());
    float lanes[kLanes];
    std::fill(std::begin(lanes), std::end(lanes), -std::numeric_limits<float>::infinity());
    std::size_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      const float* numbers = values.data() + i;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = numbers[lane] > lanes[lane] ? numbers[lane] : lanes[lane];
        zeros[lane] += numbers[lane] * 0.0f;
      }
    }
    for (; i < end; ++i) {
      lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
      zeros[0] += values[i] * 0.0f;
    }
    const float in_piece = *std::max_element(std::begin(lanes), std::end(lanes));
    if (in_piece > largest) {
      largest = in_piece;
      best_piece = first;
    }
  }
  scan.all_finite = std::all_of(std::begin(zeros), std::end(zeros), [](float z) { return z == 0; });
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(best_piece);
  const auto place = std::find(begin, values.end(), largest);
  scan.largest = place == values.end() ? 0 : static_cast<std::size_t>(place - values.begin());
  return scan;
}

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

// ScanRow. Errors: NaN or infinities.
Result<RowScan> ScanFinite(std::span<const float> logits, std::int64_t position) {
  const RowScan scan = ScanRow(logits);
  if (scan.all_finite) return scan;
  const auto bad = std::find_if_not(logits.begin(), logits.end(),
                                    [](float logit) { return std::isfinite(logit); });
  return NotFiniteError(position, static_cast<Token>(bad - logits.begin()), *bad);
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
          .truncates = Truncates(parameters)};
}

void SortUnique(std::vector<Token>& tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

// Counts an occurrence in the output. The list may already contain the token.
void CountDraft(Token draft, std::vector<TokenCount>& counts) {
  const auto found = std::ranges::find(counts, draft, &TokenCount::token);
  if (found == counts.end()) {
    counts.push_back({draft, 1});
  } else {
    ++found->count;
  }
}

}  // namespace

SamplerState::SamplerState(std::int64_t vocab_size)
    : vocab_size_(vocab_size),
      seen_(static_cast<std::size_t>(vocab_size), 0),
      output_counts_(static_cast<std::size_t>(vocab_size), 0) {
  touched_.reserve(static_cast<std::size_t>(vocab_size));
}

void SamplerState::Begin(const SamplingParameters& parameters, std::uint64_t seed,
                         std::span<const Token> prompt, std::span<const Token> eos_tokens) {
  parameters_ = parameters;
  seed_ = seed;
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
  for (const Token token : touched_) {
    seen_[static_cast<std::size_t>(token)] = 0;
    output_counts_[static_cast<std::size_t>(token)] = 0;
  }
  touched_.clear();
  rule_ = MakeRule(parameters, seed);
  biases_.clear();
  for (const auto& [token, bias] : parameters.logit_bias) {
    biases_.push_back({token, static_cast<float>(std::clamp(bias, -kLargestBias, kLargestBias))});
  }
  for (const Token token : prompt) {
    Touch(token);
  }
}

void SamplerState::Touch(Token token) {
  Check(token >= 0 && token < vocab_size_, "token in vocabulary");
  std::uint8_t& seen = seen_[static_cast<std::size_t>(token)];
  if (seen == 0) touched_.push_back(token);
  seen = 1;
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
  Touch(token);
  ++output_counts_[static_cast<std::size_t>(token)];
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

bool SamplerState::ChangesLogits() const {
  return n_generated_ < parameters_.min_tokens || !biases_.empty() || HasPenalties(rule_);
}

void SamplerState::Process(std::span<float> logits) const {
  if (n_generated_ < parameters_.min_tokens && !IsConstrained()) {
    for (const Token token : ending_tokens_) {
      logits[static_cast<std::size_t>(token)] = kExcludedLogit;
    }
  }
  for (const auto& [token, bias] : biases_) {
    logits[static_cast<std::size_t>(token)] += bias;
  }
  if (!HasPenalties(rule_)) return;
  for (const Token token : touched_) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = Penalize(logit, output_counts_[static_cast<std::size_t>(token)], rule_);
  }
}

SamplingRow SamplerState::Row(std::int64_t position, std::span<const Token> drafts,
                              std::vector<TokenCount>& counts) const {
  SamplingRow row = {.rule = rule_, .biases = biases_};
  row.rule.position = static_cast<std::uint32_t>(position);
  if (n_generated_ + std::ssize(drafts) < parameters_.min_tokens) {
    row.excluded = ending_tokens_;
  }
  counts.clear();
  if (HasPenalties(rule_)) {
    for (const Token token : touched_) {
      counts.push_back({token, output_counts_[static_cast<std::size_t>(token)]});
    }
    for (const Token draft : drafts) {
      CountDraft(draft, counts);
    }
  }
  row.counts = counts;
  row.rule.changes_logits = !row.excluded.empty() || !row.biases.empty() || !row.counts.empty();
  return row;
}

Sampler::Sampler(std::int64_t vocab_size) : processed_(static_cast<std::size_t>(vocab_size)) {
  candidates_.reserve(static_cast<std::size_t>(vocab_size));
}

Result<Token> Sampler::Sample(std::span<const float> logits, const SamplerState& state,
                              std::int64_t position, TokenLogprobs& logprobs) {
  const Result<Token> token = Draft(logits, state, position);
  if (token && state.parameters().top_logprobs) {
    ComputeLogprobs(logits, *token, *state.parameters().top_logprobs, logprobs);
  }
  return token;
}

Status Sampler::Score(std::span<const float> logits, Token token, std::int64_t position, int count,
                      TokenLogprobs& logprobs) {
  if (const Result<RowScan> scan = ScanFinite(logits, position); !scan) {
    return Unexpected(scan.error());
  }
  ComputeLogprobs(logits, token, count, logprobs);
  return {};
}

Result<Token> Sampler::Draft(std::span<const float> logits, const SamplerState& state,
                             std::int64_t position) {
  Check(logits.size() == processed_.size(), "one logit per token of the vocabulary");
  const Result<RowScan> scan = ScanFinite(logits, position);
  if (!scan) return Unexpected(scan.error());
  if (state.IsConstrained()) return DraftConstrained(logits, state, position);
  if (const std::optional<Token> forced = state.Forced(position)) return *forced;
  if (!state.ChangesLogits()) return Choose(logits, scan->largest, state, position);
  std::copy(logits.begin(), logits.end(), processed_.begin());
  state.Process(processed_);
  return Choose(processed_, ScanRow(processed_).largest, state, position);
}

Result<Token> Sampler::DraftConstrained(std::span<const float> logits, const SamplerState& state,
                                        std::int64_t position) {
  const Result<AllowedTokens> allowed = state.Allowed(position);
  if (!allowed) return Unexpected(allowed.error());
  if (const std::optional<Token> forced = state.Forced(position)) {
    if (allowed->Has(*forced)) return *forced;
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a constraint that allows the end of the reasoning (token {}) at "
                     "position {}, where its budget is used up",
                     kConstraintUnsatisfiable, *forced, position);
  }
  if (const std::optional<Token> only = allowed->Only()) return *only;
  std::copy(logits.begin(), logits.end(), processed_.begin());
  allowed->Apply(processed_);
  state.Process(processed_);
  return Choose(processed_, ScanRow(processed_).largest, state, position);
}

Result<Token> Sampler::Choose(std::span<const float> logits, std::size_t largest_index,
                              const SamplerState& state, std::int64_t position) {
  const auto best = static_cast<Token>(largest_index);
  const float largest = logits[static_cast<std::size_t>(best)];
  if (!std::isfinite(largest)) return NothingLeftError(position, largest);
  const SamplingParameters& parameters = state.parameters();
  if (parameters.IsGreedy()) return best;
  const GumbelNoise noise(state.seed(), static_cast<std::uint32_t>(position), parameters.choice);
  const auto temperature = static_cast<float>(parameters.temperature);
  if (!Truncates(parameters)) return DrawFromAll(logits, best, temperature, noise);
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kExcludedLogit) continue;
    candidates_.push_back(
        {.logit = ScaledLogit(logits[i], largest, temperature), .token = static_cast<Token>(i)});
  }
  Truncate(parameters, candidates_);
  return DrawFrom(candidates_, noise);
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

}  // namespace fathom
