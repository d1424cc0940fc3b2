// TokenChoices: from the logits of a step to its tokens. Where one process has the whole model, its
// backend chooses, and logits reach the host only if a row asks for them; where several ranks share
// the logits, they are gathered on rank 0, whose host chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "kernels/backend.h"
#include "model/tensor_parallel.h"
#include "model/workspace.h"
#include "sampling/sampling_row.h"
#include "sampling/token_chooser.h"

namespace fathom::model {

// Describes the rows of a step from which tokens are chosen. Called once, as late as the choice
// allows; the result is read before the call of the model that called it returns. Empty: nothing is
// chosen, and the host gets all logits.
using DescribeRows = std::function<std::span<const SamplingRow>()>;

// Views of the model's memory.
struct ChosenTokens {
  std::span<const TokenChoice> choices;  // [rows]; empty if no rows were described
  Matrix<const float> logits;            // [rows, vocab_size]: of the rows that need them
};

// One thread at a time. With several ranks, all make the same calls in the same order.
class TokenChoices {
 public:
  // The views of `a` hold the logits of a step (Activations::logits, device_logits).
  TokenChoices(Backend& backend, TensorParallel& tensor, const Activations& a);

  // Returns the memory into which a process of the last stage computes n rows of logits, [n, its
  // columns of the vocabulary], before Start.
  Matrix<float> Room(std::int64_t n) const;
  // Starts the choice from n rows, in a slot (0 to most_in_flight() - 1) that is free until Finish.
  Status Start(std::int64_t n, DescribeRows describe, int slot);
  // Returns the choices and logits of Start, valid until the next call; with several ranks, rank 0
  // gets them and the others get no rows.
  Result<ChosenTokens> Finish(int slot);

 private:
  void ChooseOnBackend(std::int64_t n, const DescribeRows& describe);
  void ChooseOnHost(Matrix<const float> logits, const DescribeRows& describe);

  Backend& backend_;
  TensorParallel& tensor_;
  Matrix<float> logits_;         // [max rows, vocabulary], in memory that the host can access
  Matrix<float> device_logits_;  // the same in memory of a device that chooses; else empty
  TokenChooser chooser_;         // for gathered logits
  std::vector<DescribeRows> describe_;  // by slot, where the host chooses
  std::vector<TokenChoice> choices_;
  std::vector<PieceCopy> copies_;
  std::int64_t n_rows_ = -1;  // rows in the only slot of a whole model; -1: free
};

}  // namespace fathom::model
