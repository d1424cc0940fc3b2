#include "model/rope_tables.h"

#include <utility>

#include "kernels/rope.h"

namespace fathom::model {

Result<RopeTables> RopeTables::Create(Backend& backend, const ModelConfig& config) {
  RopeTables tables(backend);
  Status uploaded = tables.Upload(RopeFrequencies(config.qk_rope_head_dim, config.rope_theta, {}),
                                  tables.window_);
  if (uploaded) {
    uploaded = tables.Upload(
        RopeFrequencies(config.qk_rope_head_dim, config.compress_rope_theta,
                        {.factor = config.rope_scaling.factor,
                         .beta_fast = config.rope_scaling.beta_fast,
                         .beta_slow = config.rope_scaling.beta_slow,
                         .original_length = config.rope_scaling.original_max_position_embeddings}),
        tables.compress_);
  }
  if (!uploaded) return Unexpected(uploaded.error());
  return tables;
}

Status RopeTables::Upload(std::span<const float> numbers, Frequencies& frequencies) {
  const std::span<const std::byte> bytes = std::as_bytes(numbers);
  Result<std::unique_ptr<Buffer>> memory =
      backend_->Allocate(std::ssize(bytes), MemoryKind::kDevice);
  if (!memory) return Unexpected(memory.error());
  frequencies.memory = *std::move(memory);
  backend_->Upload(frequencies.memory->address(), bytes);
  frequencies.numbers = {reinterpret_cast<const float*>(frequencies.memory->address()),
                         numbers.size()};
  return {};
}

void RopeTables::Fill(const BatchView& batch, const Activations& a) const {
  backend_->FillRopeRows(batch, window_.numbers, a.window_cos, a.window_sin);
  backend_->FillRopeRows(batch, compress_.numbers, a.compress_cos, a.compress_sin);
}

}  // namespace fathom::model
