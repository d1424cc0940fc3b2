#include "engine/simulated_acceptance.h"

#include <algorithm>
#include <utility>

#include "sampling/philox.h"

namespace fathom {
namespace {

// Above, and with a minus below, whatever a model and the penalties make of a logit.
constexpr float kBeyondLogits = 1e9f;

// A random number in [0, 1) that depends on the position of the sequence alone.
double RandomShare(std::int32_t sequence, std::int32_t position) {
  const std::uint32_t bits = Philox({0, 0}, {static_cast<std::uint32_t>(sequence),
                                             static_cast<std::uint32_t>(position), 0, 0})[0];
  return static_cast<double>(bits) * 0x1p-32;
}

}  // namespace

SimulatedAcceptance::SimulatedAcceptance(std::unique_ptr<LanguageModel> model, double rate)
    : model_(std::move(model)),
      rate_(rate),
      by_slot_(static_cast<std::size_t>(model_->Limits().most_in_flight)),
      logits_(by_slot_.size()) {}

ModelLimits SimulatedAcceptance::Limits() const {
  ModelLimits limits = model_->Limits();
  limits.pause_tokens = 0;
  return limits;
}

Status SimulatedAcceptance::Forward(const Batch& batch) {
  ListDrafts(batch.View());
  return model_->Forward(batch);
}

Status SimulatedAcceptance::ForwardEach(const Batch& batch, std::vector<SequenceFailure>& failed) {
  ListDrafts(batch.View());
  return model_->ForwardEach(batch, failed);
}

void SimulatedAcceptance::ListDrafts(const BatchView& view) {
  drafts_.assign(view.tokens.size(), {});
  for (const Segment& segment : view.segments) {
    for (std::int32_t i = 0; i + 1 < segment.n_tokens; ++i) {
      const auto row = static_cast<std::size_t>(segment.first_row + i);
      drafts_[row] = {
          .token = view.tokens[row + 1],
          .is_right = RandomShare(segment.sequence, segment.first_position + i) < rate_};
    }
  }
}

Status SimulatedAcceptance::StartLogits(std::span<const std::int32_t> rows, int slot) {
  std::vector<Draft>& asked = by_slot_[static_cast<std::size_t>(slot)];
  asked.clear();
  for (const std::int32_t row : rows) {
    asked.push_back(drafts_[static_cast<std::size_t>(row)]);
  }
  return model_->StartLogits(rows, slot);
}

Result<Matrix<const float>> SimulatedAcceptance::FinishLogits(int slot) {
  const Result<Matrix<const float>> found = model_->FinishLogits(slot);
  if (!found) return found;
  std::vector<float>& values = logits_[static_cast<std::size_t>(slot)];
  values.assign(found->data, found->data + found->rows * found->cols);
  const Matrix<float> logits = {values.data(), found->rows, found->cols};
  const std::vector<Draft>& asked = by_slot_[static_cast<std::size_t>(slot)];
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const auto& [token, is_right] = asked[static_cast<std::size_t>(i)];
    if (token != kNoDraft) {
      logits.RowSpan(i)[static_cast<std::size_t>(token)] =
          is_right ? kBeyondLogits : -kBeyondLogits;
    }
  }
  return Matrix<const float>(logits);
}

}  // namespace fathom
