// The choice of tokens (docs/numerics.md 9).
#include "kernels/reference/reference_backend.h"
#include "sampling/token_chooser.h"

namespace fathom::kernels {

struct ReferenceBackend::TokenOperations {
  ReferenceBackend& self;

  void Compute(const ChooseTokensOp& op) {
    TokenChooser(op.logits.cols).ChooseEach(op.logits, op.rows, op.choices);
  }
};

bool ReferenceBackend::ComputeTokens(const Operation& operation) {
  return ComputeBy(TokenOperations{*this}, operation);
}

}  // namespace fathom::kernels
