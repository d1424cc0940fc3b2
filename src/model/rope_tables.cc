#include "model/rope_tables.h"

#include <utility>

#include "kernels/rope.h"

namespace fathom {

Result<RopeTables> RopeTables::Create(Backend& backend, const ModelConfig& config) {
  RopeTables tables(backend);
  Status imported = tables.Import(RopeFrequencies(config.qk_rope_head_dim, config.rope_theta, {}),
                                  tables.window_);
  if (imported) {
    imported = tables.Import(
        RopeFrequencies(config.qk_rope_head_dim, config.compress_rope_theta,
                        {.factor = config.rope_scaling.factor,
                         .beta_fast = config.rope_scaling.beta_fast,
                         .beta_slow = config.rope_scaling.beta_slow,
                         .original_length = config.rope_scaling.original_max_position_embeddings}),
        tables.compress_);
  }
  if (!imported) return Unexpected(imported.error());
  return tables;
}

Status RopeTables::Import(std::vector<float> numbers, Frequencies& frequencies) {
  frequencies.numbers = std::move(numbers);
  const Result<const std::byte*> imported =
      backend_->Import(std::as_bytes(std::span(frequencies.numbers)));
  if (!imported) return Unexpected(imported.error());
  frequencies.imported = {reinterpret_cast<const float*>(*imported), frequencies.numbers.size()};
  return {};
}

void RopeTables::Fill(const BatchView& batch, const Activations& a) const {
  backend_->FillRopeRows(batch, window_.imported, a.window_cos, a.window_sin);
  backend_->FillRopeRows(batch, compress_.imported, a.compress_cos, a.compress_sin);
}

}  // namespace fathom
