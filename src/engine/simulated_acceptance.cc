#include "engine/simulated_acceptance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sampling/philox.h"

namespace fathom {
namespace {

// In each block of drafts at one index, the rate is exact to less than one draft. Small enough that
// a short answer has the rate, too; larger than the number of drafts that a program tries at its
// start.
constexpr std::int64_t kBlock = 20;

// Returns a random number in [0, 1) for the n-th draft at an index.
double RandomShare(std::int64_t index, std::int64_t n) {
  const std::uint32_t bits =
      Philox({0, 0}, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(n), 0, 0})[0];
  return static_cast<double>(bits) * 0x1p-32;
}

}  // namespace

SimulatedAcceptance::SimulatedAcceptance(LanguageModel& model, double rate)
    : model_(model),
      rate_(rate),
      by_slot_(static_cast<std::size_t>(model.Limits().most_in_flight)) {}

ModelLimits SimulatedAcceptance::Limits() const {
  ModelLimits limits = model_.Limits();
  limits.pause_tokens = 0;
  return limits;
}

Status SimulatedAcceptance::Forward(const Batch& batch, std::vector<SequenceFailure>& failed) {
  ListDrafts(batch.View());
  return model_.Forward(batch, failed);
}

void SimulatedAcceptance::ListDrafts(const BatchView& view) {
  drafts_.assign(view.tokens.size(), kNoDraft);
  for (const Segment& segment : view.segments) {
    for (std::int32_t i = 0; i + 1 < segment.n_tokens; ++i) {
      const auto row = static_cast<std::size_t>(segment.first_row + i);
      drafts_[row] = view.tokens[row + 1];
    }
  }
  asked_ = {};
}

// Decides in random order, with as many right drafts in each block as the rate demands (Knuth, The
// Art of Computer Programming 2, 3.4.2, algorithm S).
bool SimulatedAcceptance::Decide(std::size_t index) {
  if (index >= verified_.size()) verified_.resize(index + 1);
  auto& [n, n_right] = verified_[index];
  const std::int64_t block_end = (n / kBlock + 1) * kBlock;
  const auto right_left =
      static_cast<double>(std::llround(rate_ * static_cast<double>(block_end)) - n_right);
  const bool is_right =
      RandomShare(static_cast<std::int64_t>(index), n) * static_cast<double>(block_end - n) <
      right_left;
  ++n;
  n_right += is_right ? 1 : 0;
  return is_right;
}

// A draft after a wrong one is not verified.
SimulatedAcceptance::Draft SimulatedAcceptance::Ask(std::int32_t row) {
  const Token token = drafts_[static_cast<std::size_t>(row)];
  if (token == kNoDraft) {
    asked_ = {};
    return {};
  }
  if (row != asked_.next_row) asked_ = {};
  asked_.next_row = row + 1;
  asked_.all_right = asked_.all_right && Decide(asked_.n_drafts);
  ++asked_.n_drafts;
  return {.token = token, .is_right = asked_.all_right};
}

Status SimulatedAcceptance::StartTokens(std::span<const std::int32_t> rows, DescribeRows describe,
                                        int slot) {
  std::vector<Draft>& asked = by_slot_[static_cast<std::size_t>(slot)];
  asked.clear();
  for (const std::int32_t row : rows) {
    asked.push_back(Ask(row));
  }
  return model_.StartTokens(rows, std::move(describe), slot);
}

Result<ChosenTokens> SimulatedAcceptance::FinishTokens(int slot) {
  Result<ChosenTokens> found = model_.FinishTokens(slot);
  if (!found) return found;
  choices_.assign(found->choices.begin(), found->choices.end());
  const std::vector<Draft>& asked = by_slot_[static_cast<std::size_t>(slot)];
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto& [token, is_right] = asked[i];
    if (token == kNoDraft || (choices_[i].token == token) == is_right) continue;
    const auto vocab_size = static_cast<Token>(found->logits.cols);
    choices_[i] = {.token = is_right ? token : (token + 1) % vocab_size};
  }
  found->choices = choices_;
  return found;
}

}  // namespace fathom
