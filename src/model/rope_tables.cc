#include "model/rope_tables.h"

#include "kernels/rope.h"

namespace fathom {

RopeTables::RopeTables(const ModelConfig& config)
    : window_(RopeFrequencies(config.qk_rope_head_dim, config.rope_theta, {})),
      compress_(RopeFrequencies(
          config.qk_rope_head_dim, config.compress_rope_theta,
          {.factor = config.rope_scaling.factor,
           .beta_fast = config.rope_scaling.beta_fast,
           .beta_slow = config.rope_scaling.beta_slow,
           .original_length = config.rope_scaling.original_max_position_embeddings})) {}

void RopeTables::Fill(std::span<const std::int32_t> positions, const Activations& a) const {
  std::int64_t row = 0;
  for (const std::int32_t position : positions) {
    RopeAngles(position, window_, a.window_cos.Row(row), a.window_sin.Row(row));
    RopeAngles(position, compress_, a.compress_cos.Row(row), a.compress_sin.Row(row));
    ++row;
  }
}

}  // namespace fathom
