#include "sampling/token_chooser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "sampling/gumbel_noise.h"

namespace fathom::sampling {
namespace {

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

}  // namespace

void ChangeLogits(const SamplingRow& row, std::span<float> logits) {
  for (const Token token : row.excluded) {
    logits[static_cast<std::size_t>(token)] = kExcludedLogit;
  }
  for (const auto& [token, bias] : row.biases) {
    logits[static_cast<std::size_t>(token)] += bias;
  }
  for (const auto& [token, count] : row.counts) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = Penalize(logit, count, row.rule);
  }
}

TokenChooser::TokenChooser(std::int64_t vocab_size) : vocab_size_(vocab_size) {
  changed_.reserve(static_cast<std::size_t>(vocab_size));
  candidates_.reserve(static_cast<std::size_t>(vocab_size));
}

TokenChoice TokenChooser::FindLargest(std::span<const float> logits) {
  const RowScan scan = ScanRow(logits);
  if (scan.all_finite) {
    return {.token = static_cast<Token>(scan.largest), .logit = logits[scan.largest]};
  }
  const auto bad = std::find_if_not(logits.begin(), logits.end(),
                                    [](float logit) { return std::isfinite(logit); });
  return {.outcome = ChoiceOutcome::kNotFinite,
          .token = static_cast<Token>(bad - logits.begin()),
          .logit = *bad};
}

void TokenChooser::ChooseEach(Matrix<const float> logits, std::span<const SamplingRow> rows,
                              std::span<TokenChoice> choices) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].is_chosen) {
      choices[i] = Choose(logits.RowSpan(static_cast<std::int64_t>(i)), rows[i]);
    }
  }
}

TokenChoice TokenChooser::Choose(std::span<const float> logits, const SamplingRow& row,
                                 const Exclude& exclude) {
  Check(std::ssize(logits) == vocab_size_, "one logit per token of the vocabulary");
  const TokenChoice largest = FindLargest(logits);
  if (largest.outcome == ChoiceOutcome::kNotFinite) return largest;
  if (!exclude && !row.rule.changes_logits) return Draw(logits, largest.token, row.rule);
  changed_.assign(logits.begin(), logits.end());
  if (exclude) exclude(changed_);
  ChangeLogits(row, changed_);
  return Draw(changed_, static_cast<Token>(ScanRow(changed_).largest), row.rule);
}

TokenChoice TokenChooser::Draw(std::span<const float> logits, Token largest,
                               const SamplingRule& rule) {
  const float largest_logit = logits[static_cast<std::size_t>(largest)];
  if (!std::isfinite(largest_logit)) {
    return {.outcome = ChoiceOutcome::kNothingIsLeft, .logit = largest_logit};
  }
  if (rule.is_greedy) return {.token = largest};
  const GumbelNoise noise(rule.seed, rule.position, rule.choice);
  if (!rule.truncates) return {.token = DrawFromAll(logits, largest, rule.temperature, noise)};
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kExcludedLogit) continue;
    candidates_.push_back({.logit = ScaledLogit(logits[i], largest_logit, rule.temperature),
                           .token = static_cast<Token>(i)});
  }
  Truncate(rule, candidates_);
  return {.token = DrawFrom(candidates_, noise)};
}

}  // namespace fathom::sampling
