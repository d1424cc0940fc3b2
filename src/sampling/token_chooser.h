// TokenChooser: chooses the token of a row of logits, on the host (docs/spec/sampling.md 2). Steps,
// in this order:
//
//   -inf for the excluded tokens
//   + biases
//   penalties: l > 0 ? l / r : l * r (prompt and output); - frequency * count - presence (output)
//   greedy: the largest logit, ties lowest id; done
//   z = (l - largest l) / temperature, in fp32
//   min-p, top-k, top-p (sampling/truncation.h)
//   argmax of z + Gumbel noise, in double, ties lowest id
//
// The last step draws from softmax(z) without computing the sum. The noise of a token is a function
// of (seed, position in the sequence, choice, token id): so the draw depends only on the logits,
// not on batches, chunks or earlier draws.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "sampling/sampling_row.h"
#include "sampling/truncation.h"

namespace fathom::sampling {

// Applies the lists of a row to its logits: the steps before `greedy`.
void ChangeLogits(const SamplingRow& row, std::span<float> logits);

// Holds scratch memory for one row, whose pages take memory when they are first used. One thread at
// a time.
class TokenChooser {
 public:
  explicit TokenChooser(std::int64_t vocab_size);

  // Excludes tokens in place, before everything else: sets their logits to kExcludedLogit.
  using Exclude = std::function<void(std::span<float> logits)>;

  // Chooses from the rows of logits [rows.size(), vocab_size] with is_chosen; the other choices
  // stay as they are. Allocates nothing.
  void ChooseEach(Matrix<const float> logits, std::span<const SamplingRow> rows,
                  std::span<TokenChoice> choices);
  // Chooses from logits [vocab_size]; row.is_chosen is not read. Allocates nothing.
  TokenChoice Choose(std::span<const float> logits, const SamplingRow& row,
                     const Exclude& exclude = {});

  // Returns kNotFinite with the first logit that is NaN or infinite; else kToken with the largest
  // logit, the first among equals.
  static TokenChoice FindLargest(std::span<const float> logits);

 private:
  // `largest`: the index of the largest logit.
  TokenChoice Draw(std::span<const float> logits, Token largest, const SamplingRule& rule);

  const std::int64_t vocab_size_;
  std::vector<float> changed_;
  std::vector<Candidate> candidates_;
};

}  // namespace fathom::sampling
