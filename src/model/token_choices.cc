#include "model/token_choices.h"

#include <utility>

#include "base/check.h"

namespace fathom::model {

TokenChoices::TokenChoices(Backend& backend, TensorParallel& tensor, const Activations& a)
    : backend_(backend),
      tensor_(tensor),
      logits_(a.logits),
      device_logits_(a.device_logits),
      chooser_(a.logits.cols),
      describe_(static_cast<std::size_t>(tensor.most_in_flight())) {
  choices_.reserve(static_cast<std::size_t>(logits_.rows));
  copies_.reserve(static_cast<std::size_t>(logits_.rows));
}

Matrix<float> TokenChoices::Room(std::int64_t n) const {
  if (!tensor_.is_whole()) return tensor_.LocalLogits(n);
  return (device_logits_.rows > 0 ? device_logits_ : logits_).Rows(0, n);
}

Status TokenChoices::Start(std::int64_t n, DescribeRows describe, int slot) {
  if (tensor_.is_whole()) {
    Check(slot == 0 && n_rows_ < 0, "a free slot for logits");
    n_rows_ = n;
    ChooseOnBackend(n, describe);
    return {};
  }
  if (tensor_.stage().is_last) {
    if (Status done = backend_.Synchronize(); !done) return done;
  }
  describe_[static_cast<std::size_t>(slot)] = std::move(describe);
  return tensor_.StartLogits(n, slot);
}

void TokenChoices::ChooseOnBackend(std::int64_t n, const DescribeRows& describe) {
  const Matrix<float> room = Room(n);
  const std::span<const SamplingRow> rows = describe ? describe() : std::span<const SamplingRow>();
  if (device_logits_.rows > 0) {
    copies_.clear();
    for (std::int64_t row = 0; row < n; ++row) {
      if (rows.empty() || rows[static_cast<std::size_t>(row)].needs_logits) {
        copies_.push_back({logits_.Row(row), room.Row(row),
                           room.cols * static_cast<std::int64_t>(sizeof(float))});
      }
    }
    backend_.CopyPieces(copies_);
  }
  choices_.resize(rows.size());
  if (!rows.empty()) backend_.ChooseTokens(room, rows, choices_);
}

void TokenChoices::ChooseOnHost(Matrix<const float> logits, const DescribeRows& describe) {
  const std::span<const SamplingRow> rows = describe();
  choices_.resize(rows.size());
  chooser_.ChooseEach(logits, rows, choices_);
}

Result<ChosenTokens> TokenChoices::Finish(int slot) {
  if (tensor_.is_whole()) {
    Check(slot == 0 && n_rows_ >= 0, "logits that were started");
    const std::int64_t n = std::exchange(n_rows_, -1);
    if (Status done = backend_.Synchronize(); !done) return Unexpected(done.error());
    return ChosenTokens{choices_, logits_.Rows(0, n)};
  }
  const DescribeRows describe = std::exchange(describe_[static_cast<std::size_t>(slot)], {});
  const Result<Matrix<const float>> logits = tensor_.FinishLogits(slot);
  if (!logits) return Unexpected(logits.error());
  choices_.clear();
  if (describe && logits->rows > 0) ChooseOnHost(*logits, describe);
  return ChosenTokens{choices_, *logits};
}

}  // namespace fathom::model
