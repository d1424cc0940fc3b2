#include "model/expert_guess.h"

#include <optional>

namespace fathom::model {

void GuessExperts(const Step& step, const BlockWeights& next, Matrix<const Bf16> streams) {
  if (next.ffn.bias.empty()) return;  // only the token decides: no guess is needed
  const std::optional<GuessBuffers> buffers =
      step.store.BeginGuess(next.index, step.batch.n_tokens());
  if (!buffers) return;
  Backend& backend = step.backend;
  const GuessBuffers& b = *buffers;
  backend.HcPre(streams, next.hc_ffn, step.hc_options(), b.u, b.mix);
  backend.RmsNorm(b.u, next.ffn_norm, step.config.rms_norm_eps, b.u);
  backend.Linear(b.u, next.ffn.gate, b.logits);
  backend.Route(b.logits, next.ffn.bias, step.config.routed_scaling_factor, b.routing);
  step.store.EndGuess();
}

}  // namespace fathom::model
