// A language model without weights: the logits after a token are a hash of the whole sequence up to
// it, so they tell whether every token reached the model at its position.
#ifndef FATHOM_TESTS_ENGINE_FAKE_MODEL_H_
#define FATHOM_TESTS_ENGINE_FAKE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/language_model.h"

namespace fathom::testing {

class FakeModel final : public LanguageModel {
 public:
  explicit FakeModel(ModelLimits limits)
      : limits_(limits), sequences_(static_cast<std::size_t>(limits.max_sequences)) {
    for (Sequence& sequence : sequences_) {
      sequence.tokens.reserve(static_cast<std::size_t>(limits.max_context));
    }
    row_hashes_.reserve(static_cast<std::size_t>(limits.max_batch_tokens));
    logits_.resize(static_cast<std::size_t>(limits.vocab_size));
  }

  ModelLimits Limits() const override { return limits_; }

  Status Forward(const Batch& batch) override {
    const BatchView view = batch.View();
    if (view.n_tokens() < 1 || view.n_tokens() > limits_.max_batch_tokens) {
      return MakeError(ErrorCode::kInvalidArgument, "batch of {} tokens", view.n_tokens());
    }
    if (n_forwards == fail_at_forward) {
      return MakeError(ErrorCode::kIo, "the fake model fails as told");
    }
    ++n_forwards;
    row_hashes_.clear();
    for (const Segment& segment : view.segments) {
      Sequence& sequence = sequences_[static_cast<std::size_t>(segment.sequence)];
      const Status ran = Append(sequence, segment, view);
      if (!ran) return ran;
    }
    n_tokens += view.n_tokens();
    return {};
  }

  Matrix<const float> Logits(std::span<const std::int32_t> rows) override {
    std::uint64_t state = row_hashes_.at(static_cast<std::size_t>(rows[0]));
    for (float& logit : logits_) {
      state = Mix(state);
      logit = static_cast<float>(state >> 40) * 0x1p-21f - 4.0f;  // -4 to 4
    }
    if (n_forwards == nan_at_forward) logits_[1] = std::numeric_limits<float>::quiet_NaN();
    return {logits_.data(), 1, limits_.vocab_size};
  }

  // What has been asked of the model.
  std::int64_t n_forwards = 0;
  std::int64_t n_tokens = 0;
  // The call of Forward that fails (0 is the first), the number of calls after which a logit is
  // NaN.
  std::int64_t fail_at_forward = -1;
  std::int64_t nan_at_forward = -1;

 private:
  struct Sequence {
    std::vector<Token> tokens;
    std::int64_t high_water = 0;
  };

  static std::uint64_t Mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  Status Append(Sequence& sequence, const Segment& segment, const BatchView& view) {
    const std::int64_t first = segment.first_position;
    const auto standing = static_cast<std::int64_t>(sequence.tokens.size());
    const bool continues =
        first <= standing && first >= sequence.high_water - limits_.rollback_tokens;
    if ((first != 0 && !continues) || first + segment.n_tokens > limits_.max_context) {
      return MakeError(ErrorCode::kInvalidArgument, "position {} of a sequence of {}, at most {}",
                       first, standing, sequence.high_water);
    }
    if (first == 0) sequence.high_water = 0;
    sequence.tokens.resize(static_cast<std::size_t>(first));
    for (std::int32_t i = 0; i < segment.n_tokens; ++i) {
      sequence.tokens.push_back(view.tokens[static_cast<std::size_t>(segment.first_row + i)]);
      std::uint64_t hash = 1;
      for (const Token token : sequence.tokens) {
        hash = Mix(hash ^ static_cast<std::uint64_t>(token));
      }
      row_hashes_.push_back(hash);
    }
    sequence.high_water =
        std::max(sequence.high_water, static_cast<std::int64_t>(sequence.tokens.size()));
    return {};
  }

  const ModelLimits limits_;
  std::vector<Sequence> sequences_;
  std::vector<std::uint64_t> row_hashes_;
  std::vector<float> logits_;
};

}  // namespace fathom::testing

#endif  // FATHOM_TESTS_ENGINE_FAKE_MODEL_H_
