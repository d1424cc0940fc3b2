// The choice of tokens (docs/numerics.md 9).
#include <cstddef>
#include <cstdint>

#include "kernels/reference/reference_backend.h"
#include "sampling/token_chooser.h"

namespace fathom {

struct ReferenceBackend::TokenOperations {
  ReferenceBackend& self;

  void Compute(const ChooseTokensOp& op) {
    TokenChooser chooser(op.logits.cols);
    for (std::int64_t row = 0; row < op.logits.rows; ++row) {
      const auto i = static_cast<std::size_t>(row);
      if (op.rows[i].is_chosen) op.choices[i] = chooser.Choose(op.logits.RowSpan(row), op.rows[i]);
    }
  }
};

bool ReferenceBackend::ComputeTokens(const Operation& operation) {
  return ComputeBy(TokenOperations{*this}, operation);
}

}  // namespace fathom
